// RUN: %tenon-opt %s --pass=simplify --check | FileCheck %s

// CHECK-LABEL: @identities
func.func @identities(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: return %arg0
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %zero = tn.constant dense<0.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %minus = tn.constant dense<-0.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %0 = tn.mul %x, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = tn.add %minus, %0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tn.sub %1, %zero : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = tn.div %2, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %4 = tn.neg %3 : tensor<2x3xf32>
  %5 = tn.neg %4 : tensor<2x3xf32>
  %6 = tn.cast %5 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = tn.transpose %6 [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = tn.broadcast %7 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = tn.slice %8 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %10 = tn.pad <constant> %9 {begins = array<i64: 0, 0>, ends = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %11 = tn.concat %10 {axis = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %12 = tn.reshape %11 : (tensor<2x3xf32>) -> tensor<6xf32>
  %13 = tn.reshape %12 : (tensor<6xf32>) -> tensor<2x3xf32>
  %14 = tn.transpose %13 [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %15 = tn.transpose %14 [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %16 = tn.cast %15 : (tensor<2x3xf32>) -> tensor<2x3xf64>
  %17 = tn.cast %16 : (tensor<2x3xf64>) -> tensor<2x3xf32>
  return %17 : tensor<2x3xf32>
}
// -----
// -0 + 0 is 0: the sum goes away where no element can be -0, or where nobody tells it from 0.
// CHECK-LABEL: @zeros
func.func @zeros(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[KEPT:.*]] = tn.add %arg0
  // CHECK: %[[SUB:.*]] = tn.sub %arg0
  // CHECK: %[[PRODUCT:.*]] = tn.matmul %arg0, %arg1
  // CHECK-NEXT: %[[EXP:.*]] = tn.exp %arg0
  // CHECK-NEXT: %[[SUM:.*]] = tn.add %arg0, %[[PRODUCT]]
  // CHECK-NEXT: return %[[KEPT]], %[[SUB]], %[[PRODUCT]], %[[EXP]], %[[SUM]]
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %minus = tn.constant dense<-0.0> : tensor<f32> : tensor<f32>
  %0 = tn.add %x, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = tn.sub %x, %minus : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = tn.matmul %x, %w : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %3 = tn.add %2, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %4 = tn.add %x, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %5 = tn.exp %4 : tensor<2x3xf32>
  %6 = tn.add %x, %2 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = tn.add %6, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %0, %1, %3, %5, %7 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
// -----
// Not identities: a scalar that broadcasts the other operand up, another number, a narrowing cast, a
// reversing slice, a negative zero's cousin for products.
// CHECK-LABEL: @no_identities
func.func @no_identities(%x: tensor<3xf32>, %y: tensor<2x3xf32>, %s: tensor<1xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: tn.mul
  // CHECK: tn.sub
  // CHECK: tn.cast
  // CHECK: tn.cast
  // CHECK: tn.slice
  %ones = tn.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = tn.mul %x, %ones : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tn.sub %one, %y : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tn.cast %y : (tensor<2x3xf32>) -> tensor<2x3xf16>
  %3 = tn.cast %2 : (tensor<2x3xf16>) -> tensor<2x3xf32>
  %4 = tn.slice %y {starts = affine_map<() -> (0, 2)>, steps = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %3, %4 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
// -----
// Division by 8 is exact as a product, by 10 it is not; min of max is a clamp; x^2 is x * x, x^3 stays.
// CHECK-LABEL: @arithmetic
func.func @arithmetic(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-DAG: %[[E:.*]] = tn.constant dense<1.250000e-01>
  // CHECK-DAG: tn.mul %arg0, %[[E]]
  // CHECK-DAG: tn.div %arg0
  // CHECK-DAG: tn.clamp %arg0 {hi = 6.000000e+00 : f64, lo = 0.000000e+00 : f64}
  // CHECK-DAG: tn.mul %arg0, %arg0
  // CHECK-DAG: tn.pow %arg0
  %eight = tn.constant dense<8.0> : tensor<f32> : tensor<f32>
  %ten = tn.constant dense<10.0> : tensor<f32> : tensor<f32>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %six = tn.constant dense<6.0> : tensor<f32> : tensor<f32>
  %two = tn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %three = tn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %0 = tn.div %x, %eight : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = tn.div %x, %ten : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = tn.max %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = tn.min %2, %six : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = tn.pow %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = tn.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// -----
// torch's transpose of K through three dims; a transpose of ones is a reshape.
#q = #tn.shape<()[s0, s1] -> (s0, 12, s1, 4)>
#m = #tn.shape<()[s0, s1] -> (s0 * 12, s1, 4)>
#t = #tn.shape<()[s0, s1] -> (s0 * 12, 4, s1)>
#k = #tn.shape<()[s0, s1] -> (s0, 12, 4, s1)>
#p = #tn.shape<()[s0] -> (s0, 1, 7)>
#r = #tn.shape<()[s0] -> (s0, 7, 1)>
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"sequence", 1, 64>]} {
// CHECK-LABEL: @movement
func.func @movement(%x: tensor<?x12x?x4xf32, #q>, %p: tensor<?x1x7xf32, #p>) -> (tensor<?x12x4x?xf32, #k>, tensor<?x7x1xf32, #r>) {
  // CHECK-NEXT: %[[K:.*]] = tn.transpose %arg0 [0, 1, 3, 2]
  // CHECK-NEXT: %[[P:.*]] = tn.reshape %arg1
  // CHECK-NEXT: return %[[K]], %[[P]]
  %0 = tn.reshape %x : (tensor<?x12x?x4xf32, #q>) -> tensor<?x?x4xf32, #m>
  %1 = tn.transpose %0 [0, 2, 1] : (tensor<?x?x4xf32, #m>) -> tensor<?x4x?xf32, #t>
  %2 = tn.reshape %1 : (tensor<?x4x?xf32, #t>) -> tensor<?x12x4x?xf32, #k>
  %3 = tn.transpose %p [0, 2, 1] : (tensor<?x1x7xf32, #p>) -> tensor<?x7x1xf32, #r>
  return %2, %3 : tensor<?x12x4x?xf32, #k>, tensor<?x7x1xf32, #r>
}
}
// -----
// The mask of a model without causality: the test of positions is always true, the broadcast of the
// condition moves behind the select.
#s = #tn.shape<()[s0, s1] -> (s0, 1, s1, s1)>
#m = #tn.shape<()[s0, s1] -> (s0, 1, 1, s1)>
#i = #tn.shape<()[s0, s1] -> (s1)>
#r = #tn.shape<()[s0, s1] -> (1, 1, s1, 1)>
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"sequence", 1, 64>]} {
// CHECK-LABEL: @mask
func.func @mask(%seen: tensor<?x1x1x?xi1, #m>) -> tensor<?x1x?x?xf32, #s> {
  // CHECK: %[[M:.*]] = tn.select %arg0, {{.*}} -> tensor<?x1x1x?xf32, #{{.*}}>
  // CHECK-NEXT: %[[B:.*]] = tn.broadcast %[[M]]
  // CHECK-NEXT: return %[[B]]
  %start = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %step = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %hidden = tn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %0 = tn.iota %start, %step : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #i>
  %1 = tn.reshape %0 : (tensor<?xi64, #i>) -> tensor<1x1x?x1xi64, #r>
  %2 = tn.compare %1 <ge> %start : (tensor<1x1x?x1xi64, #r>, tensor<i64>) -> tensor<1x1x?x1xi1, #r>
  %3 = tn.and %2, %seen : (tensor<1x1x?x1xi1, #r>, tensor<?x1x1x?xi1, #m>) -> tensor<?x1x?x?xi1, #s>
  %4 = tn.select %3, %zero, %hidden : (tensor<?x1x?x?xi1, #s>, tensor<f32>, tensor<f32>) -> tensor<?x1x?x?xf32, #s>
  return %4 : tensor<?x1x?x?xf32, #s>
}
}
// -----
// Equal operations are one, dead ones none.
// CHECK-LABEL: @duplicates
func.func @duplicates(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[E:.*]] = tn.exp %arg0
  // CHECK-NEXT: %[[Y:.*]] = tn.mul %[[E]], %[[E]]
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.exp %x : tensor<4xf32>
  %1 = tn.exp %x : tensor<4xf32>
  %2 = tn.log %x : tensor<4xf32>
  %3 = tn.mul %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
// -----
// A padding mask looked up by its own positions, as both exporters write it: nothing moves.
#x = #tn.shape<()[s0, s1] -> (s0, s1)>
#m = #tn.shape<()[s0, s1] -> (s0, 1, 1, s1)>
#b = #tn.shape<()[s0] -> (s0)>
#s = #tn.shape<()[s0, s1] -> (s1)>
#rb = #tn.shape<()[s0] -> (s0, 1, 1, 1)>
#rs = #tn.shape<()[s0, s1] -> (1, 1, 1, s1)>
#p = #tn.shape<()[s0, s1] -> (s0, 1, 1, s1, 1)>
#i = #tn.shape<()[s0, s1] -> (s0, 1, 1, s1, 2)>
#f = #tn.shape<()[s0, s1] -> (s0 * s1)>
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"sequence", 1, 64>]} {
// CHECK-LABEL: @own_positions
func.func @own_positions(%x: tensor<?x?xf32, #x>) -> (tensor<?x1x1x?xf32, #m>, tensor<?x1x1x?xf32, #m>) {
  // CHECK-NEXT: %[[Y:.*]] = tn.reshape %arg0
  // CHECK-NEXT: return %[[Y]], %[[Y]]
  %zero = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %one = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %0 = tn.iota %zero, %one : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #b>
  %1 = tn.iota %zero, %one : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #s>
  %2 = tn.reshape %0 : (tensor<?xi64, #b>) -> tensor<?x1x1x1xi64, #rb>
  %3 = tn.reshape %1 : (tensor<?xi64, #s>) -> tensor<1x1x1x?xi64, #rs>
  %4 = tn.broadcast %2 : (tensor<?x1x1x1xi64, #rb>) -> tensor<?x1x1x?xi64, #m>
  %5 = tn.reshape %4 : (tensor<?x1x1x?xi64, #m>) -> tensor<?x1x1x?x1xi64, #p>
  %6 = tn.broadcast %3 : (tensor<1x1x1x?xi64, #rs>) -> tensor<?x1x1x?xi64, #m>
  %7 = tn.reshape %6 : (tensor<?x1x1x?xi64, #m>) -> tensor<?x1x1x?x1xi64, #p>
  %8 = tn.concat %5, %7 {axis = 4 : i64} : (tensor<?x1x1x?x1xi64, #p>, tensor<?x1x1x?x1xi64, #p>) -> tensor<?x1x1x?x2xi64, #i>
  %9 = tn.gather_nd %x, %8 {batchDims = 0 : i64} : (tensor<?x?xf32, #x>, tensor<?x1x1x?x2xi64, #i>) -> tensor<?x1x1x?xf32, #m>
  %10 = tn.sizes affine_map<()[s0, s1] -> (s1)> : tensor<1xi64>
  %11 = tn.mul %2, %10 : (tensor<?x1x1x1xi64, #rb>, tensor<1xi64>) -> tensor<?x1x1x1xi64, #rb>
  %12 = tn.add %3, %11 : (tensor<1x1x1x?xi64, #rs>, tensor<?x1x1x1xi64, #rb>) -> tensor<?x1x1x?xi64, #m>
  %13 = tn.reshape %x : (tensor<?x?xf32, #x>) -> tensor<?xf32, #f>
  %14 = tn.gather %13, %12 {axis = 0 : i64} : (tensor<?xf32, #f>, tensor<?x1x1x?xi64, #m>) -> tensor<?x1x1x?xf32, #m>
  return %9, %14 : tensor<?x1x1x?xf32, #m>, tensor<?x1x1x?xf32, #m>
}
// The positions swapped, another start, another stride: these move.
// CHECK-LABEL: @other_positions
func.func @other_positions(%x: tensor<3x3xf32>, %y: tensor<6xf32>) -> (tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>) {
  // CHECK-COUNT-2: tn.gather
  // CHECK: tn.gather
  %zero = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %one = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %two = tn.constant dense<2> : tensor<i64> : tensor<i64>
  %0 = tn.iota %zero, %one : (tensor<i64>, tensor<i64>) -> tensor<3xi64>
  %1 = tn.reshape %0 : (tensor<3xi64>) -> tensor<3x1xi64>
  %2 = tn.broadcast %0 : (tensor<3xi64>) -> tensor<3x3xi64>
  %3 = tn.broadcast %1 : (tensor<3x1xi64>) -> tensor<3x3xi64>
  %4 = tn.reshape %2 : (tensor<3x3xi64>) -> tensor<3x3x1xi64>
  %5 = tn.reshape %3 : (tensor<3x3xi64>) -> tensor<3x3x1xi64>
  %6 = tn.concat %4, %5 {axis = 2 : i64} : (tensor<3x3x1xi64>, tensor<3x3x1xi64>) -> tensor<3x3x2xi64>
  %7 = tn.gather_nd %x, %6 {batchDims = 0 : i64} : (tensor<3x3xf32>, tensor<3x3x2xi64>) -> tensor<3x3xf32>
  %8 = tn.iota %two, %one : (tensor<i64>, tensor<i64>) -> tensor<3xi64>
  %9 = tn.gather %y, %8 {axis = 0 : i64} : (tensor<6xf32>, tensor<3xi64>) -> tensor<3xf32>
  %10 = tn.iota %zero, %two : (tensor<i64>, tensor<i64>) -> tensor<3xi64>
  %11 = tn.gather %y, %10 {axis = 0 : i64} : (tensor<6xf32>, tensor<3xi64>) -> tensor<3xf32>
  return %7, %9, %11 : tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>
}
}

// -----
// Weights of a convolution of quantized numbers stay quantized, also where the largest of some stand between; others do not.
// CHECK-LABEL: @weights_of_convolutions
func.func @weights_of_convolutions(%x: tensor<1x4x8xui8>, %y: tensor<1x4x4xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  // CHECK: %[[W:.*]] = tn.dequantize {{.*}} : (tensor<2x4x1xi8>
  // CHECK: tn.conv %{{.*}}, %[[W]]
  // CHECK-NOT: tn.dequantize
  // CHECK: return
  %t = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %o = tn.constant dense<1> : tensor<i8> : tensor<i8>
  %w = tn.weight "w" : tensor<2x4x1xi8>
  %v = tn.weight "v" : tensor<2x4x1xi8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<1x4x8xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x8xf32>
  %1 = tn.max_pool %0 {kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, ceilMode = false, channelsLast = false} : (tensor<1x4x8xf32>) -> tensor<1x4x4xf32>
  %2 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<2x4x1xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4x1xf32>
  %3 = tn.conv %1, %2 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x4x4xf32>, tensor<2x4x1xf32>) -> tensor<1x2x4xf32>
  %4 = tn.dequantize %v, %t, %o {axis = 0 : i64} : (tensor<2x4x1xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4x1xf32>
  %5 = tn.conv %y, %4 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x4x4xf32>, tensor<2x4x1xf32>) -> tensor<1x2x4xf32>
  return %3, %5 : tensor<1x2x4xf32>, tensor<1x2x4xf32>
}
