// All kernels as one unit, which is compiled to the bitcode of each core.
#include "edge/kernels/add.h"
#include "edge/kernels/add_lite.h"
#include "edge/kernels/affine.h"
#include "edge/kernels/average.h"
#include "edge/kernels/average_lite.h"
#include "edge/kernels/conv.h"
#include "edge/kernels/depthwise.h"
#include "edge/kernels/fill.h"
#include "edge/kernels/maximum.h"
#include "edge/kernels/mean.h"
#include "edge/kernels/move.h"
#include "edge/kernels/mul.h"
#include "edge/kernels/selftest.h"
#include "edge/kernels/softmax.h"
#include "edge/kernels/softmax_lite.h"
#include "edge/kernels/table.h"

// What nothing calls is not in the bitcode.
const void *const tn_all_kernels[] = {
    (const void *)tn_add,          (const void *)tn_affine,    (const void *)tn_average,
    (const void *)tn_conv,         (const void *)tn_depthwise, (const void *)tn_fill,
    (const void *)tn_maximum,      (const void *)tn_mean,      (const void *)tn_move,
    (const void *)tn_mul,          (const void *)tn_selftest,  (const void *)tn_softmax,
    (const void *)tn_table,        (const void *)tn_add_lite,  (const void *)tn_average_lite,
    (const void *)tn_softmax_lite,
};
