// The room has no constants of its own: times of exchanges are in compiler/target/Collectives.cpp.
#pragma once
