// The operations of TnCustomOps.td. Apart from Tn.h, which nearly every file of the compiler
// includes.
#pragma once

#include "compiler/graph/Tn.h"

#define GET_OP_CLASSES
#include "compiler/graph/TnCustomOps.h.inc"
