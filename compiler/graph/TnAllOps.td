// All operations, for the page that is generated from them.

include "compiler/graph/TnOps.td"
include "compiler/graph/TnRareOps.td"
include "compiler/graph/TnShardOps.td"
include "compiler/graph/TnCustomOps.td"
