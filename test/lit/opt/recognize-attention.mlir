// RUN: %tenon-opt %s --pass=simplify,sink-transposes,recognize-attention,simplify --check | FileCheck %s
#q = #tn.shape<()[s0, s1] -> (s0, s1, 2, 4)>
#h = #tn.shape<()[s0, s1] -> (s0, 2, s1, 4)>
#k = #tn.shape<()[s0, s1] -> (s0, 2, 4, s1)>
#s = #tn.shape<()[s0, s1] -> (s0, 2, s1, s1)>
#m = #tn.shape<()[s0, s1] -> (s0, 1, 1, s1)>

// torch's export of scaled_dot_product_attention: q and k each times sqrt(scale), k transposed with its
// heads, the guard against rows of NaN, heads split and merged by transposes.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"sequence", 1, 64>]} {
// CHECK-LABEL: @torch_sdpa
func.func @torch_sdpa(%q: tensor<?x?x2x4xf32, #q>, %k: tensor<?x?x2x4xf32, #q>, %v: tensor<?x?x2x4xf32, #q>, %m: tensor<?x1x1x?xf32, #m>) -> tensor<?x?x2x4xf32, #q> {
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 mask %arg3 {causal = false, headsInner = array<i1: true, true, true, true>, scale = 0.49999{{.*}} : f64}
  // CHECK-NEXT: return %[[Y]]
  %c = tn.constant dense<0.707106769> : tensor<f32> : tensor<f32>
  %zero = tn.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
  %0 = tn.transpose %q [0, 2, 1, 3] : (tensor<?x?x2x4xf32, #q>) -> tensor<?x2x?x4xf32, #h>
  %1 = tn.mul %0, %c : (tensor<?x2x?x4xf32, #h>, tensor<f32>) -> tensor<?x2x?x4xf32, #h>
  %2 = tn.transpose %k [0, 2, 3, 1] : (tensor<?x?x2x4xf32, #q>) -> tensor<?x2x4x?xf32, #k>
  %3 = tn.mul %c, %2 : (tensor<f32>, tensor<?x2x4x?xf32, #k>) -> tensor<?x2x4x?xf32, #k>
  %4 = tn.transpose %v [0, 2, 1, 3] : (tensor<?x?x2x4xf32, #q>) -> tensor<?x2x?x4xf32, #h>
  %5 = tn.matmul %1, %3 : (tensor<?x2x?x4xf32, #h>, tensor<?x2x4x?xf32, #k>) -> tensor<?x2x?x?xf32, #s>
  %6 = tn.add %5, %m : (tensor<?x2x?x?xf32, #s>, tensor<?x1x1x?xf32, #m>) -> tensor<?x2x?x?xf32, #s>
  %7 = tn.softmax %6 {axis = 3 : i64} : tensor<?x2x?x?xf32, #s>
  %8 = tn.is_nan %7 : (tensor<?x2x?x?xf32, #s>) -> tensor<?x2x?x?xi1, #s>
  %9 = tn.select %8, %zero, %7 : (tensor<?x2x?x?xi1, #s>, tensor<1xf32>, tensor<?x2x?x?xf32, #s>) -> tensor<?x2x?x?xf32, #s>
  %10 = tn.matmul %9, %4 : (tensor<?x2x?x?xf32, #s>, tensor<?x2x?x4xf32, #h>) -> tensor<?x2x?x4xf32, #h>
  %11 = tn.transpose %10 [0, 2, 1, 3] : (tensor<?x2x?x4xf32, #h>) -> tensor<?x?x2x4xf32, #q>
  return %11 : tensor<?x?x2x4xf32, #q>
}
}
// -----
// The plain form: scaled scores, k given transposed by the product, heads outside. Also keys and queries of
// other lengths and a value width of its own.
// CHECK-LABEL: @plain
func.func @plain(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x6x4xf32>, %v: tensor<2x3x6x7xf32>) -> tensor<2x3x5x7xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 {causal = false, headsInner = array<i1: false, false, false, false>, scale = 5.000000e-01 : f64}
  // CHECK-NEXT: return %[[Y]]
  %c = tn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %0 = tn.matmul %q, %k {transposeB} : (tensor<2x3x5x4xf32>, tensor<2x3x6x4xf32>) -> tensor<2x3x5x6xf32>
  %1 = tn.div %0, %c : (tensor<2x3x5x6xf32>, tensor<f32>) -> tensor<2x3x5x6xf32>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<2x3x5x6xf32>
  %3 = tn.matmul %2, %v : (tensor<2x3x5x6xf32>, tensor<2x3x6x7xf32>) -> tensor<2x3x5x7xf32>
  return %3 : tensor<2x3x5x7xf32>
}
// -----
// K comes as feature before position without a transpose that could be taken off: one is put in.
// CHECK-LABEL: @other_orders
func.func @other_orders(%q: tensor<2x3x5x4xf32>, %k: tensor<2x3x4x6xf32>, %v: tensor<2x3x7x6xf32>) -> tensor<2x3x5x7xf32> {
  // CHECK-DAG: %[[K:.*]] = tn.transpose %arg1 [0, 1, 3, 2]
  // CHECK-DAG: %[[V:.*]] = tn.transpose %arg2 [0, 1, 3, 2]
  // CHECK: tn.attention %arg0, %[[K]], %[[V]] {
  %0 = tn.matmul %q, %k : (tensor<2x3x5x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x5x6xf32>
  %1 = tn.softmax %0 {axis = 3 : i64} : tensor<2x3x5x6xf32>
  %2 = tn.matmul %1, %v {transposeB} : (tensor<2x3x5x6xf32>, tensor<2x3x7x6xf32>) -> tensor<2x3x5x7xf32>
  return %2 : tensor<2x3x5x7xf32>
}
// -----
// Heads of keys and values repeated for more heads of queries: attention reads them once.
// CHECK-LABEL: @repeated_heads
func.func @repeated_heads(%q: tensor<2x6x5x4xf32>, %k: tensor<2x3x7x4xf32>, %v: tensor<2x3x7x4xf32>) -> tensor<2x6x5x4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 {
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.reshape %k : (tensor<2x3x7x4xf32>) -> tensor<2x3x1x7x4xf32>
  %1 = tn.broadcast %0 : (tensor<2x3x1x7x4xf32>) -> tensor<2x3x2x7x4xf32>
  %2 = tn.reshape %1 : (tensor<2x3x2x7x4xf32>) -> tensor<2x6x7x4xf32>
  %3 = tn.reshape %v : (tensor<2x3x7x4xf32>) -> tensor<2x3x1x7x4xf32>
  %4 = tn.broadcast %3 : (tensor<2x3x1x7x4xf32>) -> tensor<2x3x2x7x4xf32>
  %5 = tn.reshape %4 : (tensor<2x3x2x7x4xf32>) -> tensor<2x6x7x4xf32>
  %6 = tn.matmul %q, %2 {transposeB} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>) -> tensor<2x6x5x7xf32>
  %7 = tn.softmax %6 {axis = 3 : i64} : tensor<2x6x5x7xf32>
  %8 = tn.matmul %7, %5 : (tensor<2x6x5x7xf32>, tensor<2x6x7x4xf32>) -> tensor<2x6x5x4xf32>
  return %8 : tensor<2x6x5x4xf32>
}
// -----
// Whole groups repeated (each behind the last) are other heads: they stay.
// CHECK-LABEL: @repeated_groups
func.func @repeated_groups(%q: tensor<2x6x5x4xf32>, %k: tensor<2x3x7x4xf32>, %v: tensor<2x3x7x4xf32>) -> tensor<2x6x5x4xf32> {
  // CHECK: tn.attention %arg0, %{{.*}}, %{{.*}} {{.*}} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>, tensor<2x6x7x4xf32>)
  %0 = tn.reshape %k : (tensor<2x3x7x4xf32>) -> tensor<2x1x3x7x4xf32>
  %1 = tn.broadcast %0 : (tensor<2x1x3x7x4xf32>) -> tensor<2x2x3x7x4xf32>
  %2 = tn.reshape %1 : (tensor<2x2x3x7x4xf32>) -> tensor<2x6x7x4xf32>
  %3 = tn.reshape %v : (tensor<2x3x7x4xf32>) -> tensor<2x1x3x7x4xf32>
  %4 = tn.broadcast %3 : (tensor<2x1x3x7x4xf32>) -> tensor<2x2x3x7x4xf32>
  %5 = tn.reshape %4 : (tensor<2x2x3x7x4xf32>) -> tensor<2x6x7x4xf32>
  %6 = tn.matmul %q, %2 {transposeB} : (tensor<2x6x5x4xf32>, tensor<2x6x7x4xf32>) -> tensor<2x6x5x7xf32>
  %7 = tn.softmax %6 {axis = 3 : i64} : tensor<2x6x5x7xf32>
  %8 = tn.matmul %7, %5 : (tensor<2x6x5x7xf32>, tensor<2x6x7x4xf32>) -> tensor<2x6x5x4xf32>
  return %8 : tensor<2x6x5x4xf32>
}
// -----
// Positions compared: causal. Scores replaced by -inf where the condition does not hold.
#h = #tn.shape<()[s0] -> (1, 2, s0, 4)>
#s = #tn.shape<()[s0] -> (1, 2, s0, s0)>
#i = #tn.shape<()[s0] -> (s0)>
#r = #tn.shape<()[s0] -> (s0, 1)>
#c = #tn.shape<()[s0] -> (s0, s0)>
module attributes {tn.symbols = [#tn.symbol<"sequence", 4, 64>]} {
// CHECK-LABEL: @causal_positions
func.func @causal_positions(%q: tensor<1x2x?x4xf32, #h>, %k: tensor<1x2x?x4xf32, #h>, %v: tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h> {
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 {causal = true
  // CHECK-NEXT: return %[[Y]]
  %start = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %step = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %hidden = tn.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %keys = tn.iota %start, %step : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #i>
  %queries = tn.reshape %keys : (tensor<?xi64, #i>) -> tensor<?x1xi64, #r>
  %seen = tn.compare %keys <le> %queries : (tensor<?xi64, #i>, tensor<?x1xi64, #r>) -> tensor<?x?xi1, #c>
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x?xf32, #s>
  %1 = tn.select %seen, %0, %hidden : (tensor<?x?xi1, #c>, tensor<1x2x?x?xf32, #s>, tensor<f32>) -> tensor<1x2x?x?xf32, #s>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x?x?xf32, #s>
  %3 = tn.matmul %2, %v : (tensor<1x2x?x?xf32, #s>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h>
  return %3 : tensor<1x2x?x4xf32, #h>
}
// Causal and padding in one bool mask with -inf: the padding stays as a mask of one row.
// CHECK-LABEL: @causal_and_padding
func.func @causal_and_padding(%q: tensor<1x2x?x4xf32, #h>, %k: tensor<1x2x?x4xf32, #h>, %v: tensor<1x2x?x4xf32, #h>, %pad: tensor<?xi1, #i>) -> tensor<1x2x?x4xf32, #h> {
  // CHECK: %[[M:.*]] = tn.select %arg3, %{{.*}} -> tensor<?xf32, #{{.*}}>
  // CHECK: tn.attention %arg0, %arg1, %arg2 mask %[[M]] {causal = true, headsInner = array<i1: false, false, false, false>, maskedRowsAreNan
  %start = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %step = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %hidden = tn.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %keys = tn.iota %start, %step : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #i>
  %queries = tn.reshape %keys : (tensor<?xi64, #i>) -> tensor<?x1xi64, #r>
  %seen = tn.compare %keys <le> %queries : (tensor<?xi64, #i>, tensor<?x1xi64, #r>) -> tensor<?x?xi1, #c>
  %both = tn.and %seen, %pad : (tensor<?x?xi1, #c>, tensor<?xi1, #i>) -> tensor<?x?xi1, #c>
  %mask = tn.select %both, %zero, %hidden : (tensor<?x?xi1, #c>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #c>
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x?xf32, #s>
  %1 = tn.add %mask, %0 : (tensor<?x?xf32, #c>, tensor<1x2x?x?xf32, #s>) -> tensor<1x2x?x?xf32, #s>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x?x?xf32, #s>
  %3 = tn.matmul %2, %v : (tensor<1x2x?x?xf32, #s>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h>
  return %3 : tensor<1x2x?x4xf32, #h>
}
// The same with the largest finite number: a row that hides all its keys averages over all of them, also
// those after it, so the mask must stay whole.
// CHECK-LABEL: @finite_and_padding
func.func @finite_and_padding(%q: tensor<1x2x?x4xf32, #h>, %k: tensor<1x2x?x4xf32, #h>, %v: tensor<1x2x?x4xf32, #h>, %pad: tensor<?xi1, #i>) -> tensor<1x2x?x4xf32, #h> {
  // CHECK: %[[M:.*]] = tn.select %{{.*}} -> tensor<?x?xf32, #{{.*}}>
  // CHECK: tn.attention %arg0, %arg1, %arg2 mask %[[M]] {causal = false
  %start = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %step = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %hidden = tn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %keys = tn.iota %start, %step : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #i>
  %queries = tn.reshape %keys : (tensor<?xi64, #i>) -> tensor<?x1xi64, #r>
  %seen = tn.compare %keys <le> %queries : (tensor<?xi64, #i>, tensor<?x1xi64, #r>) -> tensor<?x?xi1, #c>
  %both = tn.and %seen, %pad : (tensor<?x?xi1, #c>, tensor<?xi1, #i>) -> tensor<?x?xi1, #c>
  %mask = tn.select %both, %zero, %hidden : (tensor<?x?xi1, #c>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #c>
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x?xf32, #s>
  %1 = tn.add %mask, %0 : (tensor<?x?xf32, #c>, tensor<1x2x?x?xf32, #s>) -> tensor<1x2x?x?xf32, #s>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x?x?xf32, #s>
  %3 = tn.matmul %2, %v : (tensor<1x2x?x?xf32, #s>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h>
  return %3 : tensor<1x2x?x4xf32, #h>
}
// triu(full(-inf), 1), and strictly less: a query that does not see itself is not causal.
// CHECK-LABEL: @triangle
func.func @triangle(%q: tensor<1x2x?x4xf32, #h>, %k: tensor<1x2x?x4xf32, #h>, %v: tensor<1x2x?x4xf32, #h>) -> (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) {
  // CHECK: tn.attention %arg0, %arg1, %arg2 {causal = true
  // CHECK: tn.attention %arg2, %arg1, %arg2 mask %{{.*}} {causal = false
  %start = tn.constant dense<0> : tensor<i64> : tensor<i64>
  %step = tn.constant dense<1> : tensor<i64> : tensor<i64>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %hidden = tn.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %full = tn.broadcast %hidden : (tensor<f32>) -> tensor<?x?xf32, #c>
  %mask = tn.trilu %full {diagonal = 1 : i64, upper = true} : tensor<?x?xf32, #c>
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x?xf32, #s>
  %1 = tn.add %0, %mask : (tensor<1x2x?x?xf32, #s>, tensor<?x?xf32, #c>) -> tensor<1x2x?x?xf32, #s>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x?x?xf32, #s>
  %3 = tn.matmul %2, %v : (tensor<1x2x?x?xf32, #s>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h>
  %keys = tn.iota %start, %step : (tensor<i64>, tensor<i64>) -> tensor<?xi64, #i>
  %queries = tn.reshape %keys : (tensor<?xi64, #i>) -> tensor<?x1xi64, #r>
  %seen = tn.compare %keys <lt> %queries : (tensor<?xi64, #i>, tensor<?x1xi64, #r>) -> tensor<?x?xi1, #c>
  %other = tn.select %seen, %zero, %lowest : (tensor<?x?xi1, #c>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #c>
  %4 = tn.matmul %v, %k {transposeB} : (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x?xf32, #s>
  %5 = tn.add %4, %other : (tensor<1x2x?x?xf32, #s>, tensor<?x?xf32, #c>) -> tensor<1x2x?x?xf32, #s>
  %6 = tn.softmax %5 {axis = 3 : i64} : tensor<1x2x?x?xf32, #s>
  %7 = tn.matmul %6, %v : (tensor<1x2x?x?xf32, #s>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h>
  return %3, %7 : tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>
}
}
// -----
// As exporters write a causal mask: where the lower triangle of ones is 0; and where it is not, which is another mask.
// CHECK-LABEL: @triangle_of_ones
func.func @triangle_of_ones(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x8x4xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) {
  // CHECK-DAG: tn.attention %arg0, %arg0, %arg0 {causal = true
  // CHECK-DAG: tn.attention %arg0, %arg1, %arg0 mask %{{.*}} {causal = false
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %full = tn.broadcast %one : (tensor<f32>) -> tensor<8x8xf32>
  %lower = tn.trilu %full {diagonal = 0 : i64, upper = false} : tensor<8x8xf32>
  %behind = tn.compare %lower <eq> %zero : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xi1>
  %mask = tn.select %behind, %lowest, %zero : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %other = tn.select %behind, %zero, %lowest : (tensor<8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<8x8xf32>
  %0 = tn.matmul %q, %q {transposeB} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %1 = tn.add %0, %mask : (tensor<1x2x8x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8x8xf32>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x8x8xf32>
  %3 = tn.matmul %2, %q : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %again = tn.matmul %q, %k {transposeB} : (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x8xf32>
  %4 = tn.add %again, %other : (tensor<1x2x8x8xf32>, tensor<8x8xf32>) -> tensor<1x2x8x8xf32>
  %5 = tn.softmax %4 {axis = 3 : i64} : tensor<1x2x8x8xf32>
  %6 = tn.matmul %5, %q : (tensor<1x2x8x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  return %3, %6 : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
}
// -----
// Positions that the exporter knew, as constants of all the batch, beside a comparison of constants that always holds;
// and positions that begin anew.
// CHECK-LABEL: @constant_positions
func.func @constant_positions(%q: tensor<2x2x4x4xf32>, %k: tensor<2x2x4x4xf32>) -> (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) {
  // CHECK-DAG: tn.attention %arg0, %arg0, %arg0 {causal = true
  // CHECK-DAG: tn.attention %arg0, %arg1, %arg0 mask %{{.*}} {causal = false
  %queries = tn.constant dense<[[[[0], [1], [2], [3]]], [[[0], [1], [2], [3]]]]> : tensor<2x1x4x1xi64> : tensor<2x1x4x1xi64>
  %keys = tn.constant dense<[[[[0, 1, 2, 3]]], [[[0, 1, 2, 3]]]]> : tensor<2x1x1x4xi64> : tensor<2x1x1x4xi64>
  %anew = tn.constant dense<[[[[0, 1, 2, 3]]], [[[0, 1, 0, 1]]]]> : tensor<2x1x1x4xi64> : tensor<2x1x1x4xi64>
  %own = tn.constant dense<0> : tensor<2x1x4x1xi64> : tensor<2x1x4x1xi64>
  %other = tn.constant dense<0> : tensor<2x1x1x4xi64> : tensor<2x1x1x4xi64>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %same = tn.compare %own <eq> %other : (tensor<2x1x4x1xi64>, tensor<2x1x1x4xi64>) -> tensor<2x1x4x4xi1>
  %before = tn.compare %keys <le> %queries : (tensor<2x1x1x4xi64>, tensor<2x1x4x1xi64>) -> tensor<2x1x4x4xi1>
  %after = tn.compare %anew <le> %queries : (tensor<2x1x1x4xi64>, tensor<2x1x4x1xi64>) -> tensor<2x1x4x4xi1>
  %seen = tn.and %same, %before : (tensor<2x1x4x4xi1>, tensor<2x1x4x4xi1>) -> tensor<2x1x4x4xi1>
  %found = tn.and %same, %after : (tensor<2x1x4x4xi1>, tensor<2x1x4x4xi1>) -> tensor<2x1x4x4xi1>
  %mask = tn.select %seen, %zero, %lowest : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  %second = tn.select %found, %zero, %lowest : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  %0 = tn.matmul %q, %q {transposeB} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %1 = tn.add %0, %mask : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<2x2x4x4xf32>
  %3 = tn.matmul %2, %q : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %again = tn.matmul %q, %k {transposeB} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %4 = tn.add %again, %second : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %5 = tn.softmax %4 {axis = 3 : i64} : tensor<2x2x4x4xf32>
  %6 = tn.matmul %5, %q : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  return %3, %6 : tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>
}
// -----
// A mask of zeros, and one that is none.
// CHECK-LABEL: @zero_mask
func.func @zero_mask(%q: tensor<1x2x4x4xf32>, %k: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  // CHECK-DAG: tn.attention %arg0, %arg0, %arg0 {causal = false
  // CHECK-DAG: tn.attention %arg0, %arg1, %arg0 mask %{{.*}} {causal = false
  %zeros = tn.constant dense<0.0> : tensor<1x1x4x1xf32> : tensor<1x1x4x1xf32>
  %mask = tn.constant dense<[[[[0.0, 0.0, 0.0, -3.0]]]]> : tensor<1x1x1x4xf32> : tensor<1x1x1x4xf32>
  %0 = tn.attention %q, %q, %q mask %zeros {causal = false, headsInner = array<i1: false, false, false, false>, scale = 0.5 : f64} : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x1x4x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = tn.attention %q, %k, %q mask %mask {causal = false, headsInner = array<i1: false, false, false, false>, scale = 0.5 : f64} : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x2x4x4xf32>
  return %0, %1 : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}
// -----
// The same as a bool, negated, of the upper triangle, and with sizes that vary.
#h = #tn.shape<()[s0] -> (1, 2, s0, 4)>
#s = #tn.shape<()[s0] -> (1, 2, s0, s0)>
#c = #tn.shape<()[s0] -> (s0, s0)>
module attributes {tn.symbols = [#tn.symbol<"n", 1, 512>]} {
// CHECK-LABEL: @triangle_as_bool
func.func @triangle_as_bool(%q: tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h> {
  // CHECK: tn.attention %arg0, %arg0, %arg0 {causal = true
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %hidden = tn.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %full = tn.broadcast %one : (tensor<f32>) -> tensor<?x?xf32, #c>
  %upper = tn.trilu %full {diagonal = 1 : i64, upper = true} : tensor<?x?xf32, #c>
  %behind = tn.cast %upper : (tensor<?x?xf32, #c>) -> tensor<?x?xi1, #c>
  %seen = tn.not %behind : tensor<?x?xi1, #c>
  %mask = tn.select %seen, %zero, %hidden : (tensor<?x?xi1, #c>, tensor<f32>, tensor<f32>) -> tensor<?x?xf32, #c>
  %0 = tn.matmul %q, %q {transposeB} : (tensor<1x2x?x4xf32, #h>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x?xf32, #s>
  %1 = tn.add %0, %mask : (tensor<1x2x?x?xf32, #s>, tensor<?x?xf32, #c>) -> tensor<1x2x?x?xf32, #s>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x?x?xf32, #s>
  %3 = tn.matmul %2, %q : (tensor<1x2x?x?xf32, #s>, tensor<1x2x?x4xf32, #h>) -> tensor<1x2x?x4xf32, #h>
  return %3 : tensor<1x2x?x4xf32, #h>
}
}
// -----
// A constant triangle, and one with a hole.
// CHECK-LABEL: @constant_triangle
func.func @constant_triangle(%q: tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  // CHECK-DAG: tn.attention %arg0, %arg0, %arg0 {causal = true
  // CHECK-DAG: tn.attention %arg0, %arg0, %arg0 mask %{{.*}} {causal = false
  %mask = tn.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32> : tensor<3x3xf32>
  %hole = tn.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0xFF800000, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32> : tensor<3x3xf32>
  %0 = tn.matmul %q, %q {transposeB} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = tn.add %0, %mask : (tensor<1x2x3x3xf32>, tensor<3x3xf32>) -> tensor<1x2x3x3xf32>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x3x3xf32>
  %3 = tn.matmul %2, %q : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %4 = tn.mul %q, %half : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %5 = tn.matmul %q, %4 {transposeB} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %6 = tn.add %5, %hole : (tensor<1x2x3x3xf32>, tensor<3x3xf32>) -> tensor<1x2x3x3xf32>
  %7 = tn.softmax %6 {axis = 3 : i64} : tensor<1x2x3x3xf32>
  %8 = tn.matmul %7, %q : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %3, %8 : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
}
// -----
// Not attention: softmax over the queries; probabilities that are a result; a scale outside of the mask;
// heads that are broadcast.
// CHECK-LABEL: @refused
// CHECK-NOT: tn.attention
func.func @refused(%q: tensor<2x3x5x4xf32>, %one: tensor<2x1x5x4xf32>, %m: tensor<5x5xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) {
  %c = tn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %0 = tn.matmul %q, %q {transposeB} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x5xf32>
  %1 = tn.softmax %0 {axis = 2 : i64} : tensor<2x3x5x5xf32>
  %2 = tn.matmul %1, %q : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %3 = tn.matmul %q, %2 {transposeB} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x5xf32>
  %4 = tn.softmax %3 {axis = 3 : i64} : tensor<2x3x5x5xf32>
  %5 = tn.matmul %4, %q : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %6 = tn.matmul %2, %q {transposeB} : (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x5xf32>
  %7 = tn.add %6, %m : (tensor<2x3x5x5xf32>, tensor<5x5xf32>) -> tensor<2x3x5x5xf32>
  %8 = tn.mul %7, %c : (tensor<2x3x5x5xf32>, tensor<f32>) -> tensor<2x3x5x5xf32>
  %9 = tn.softmax %8 {axis = 3 : i64} : tensor<2x3x5x5xf32>
  %10 = tn.matmul %9, %q : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %11 = tn.matmul %q, %one {transposeB} : (tensor<2x3x5x4xf32>, tensor<2x1x5x4xf32>) -> tensor<2x3x5x5xf32>
  %12 = tn.softmax %11 {axis = 3 : i64} : tensor<2x3x5x5xf32>
  %13 = tn.matmul %12, %q : (tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  return %2, %5, %4, %10, %13 : tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>
}
// -----
// The guard of a query that sees no key: zeros, as tn.attention gives them. The constant hides all keys of
// the second query.
// CHECK-LABEL: @hidden_row
func.func @hidden_row(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  // CHECK: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 mask
  // CHECK-NEXT: return %[[Y]]
  %mask = tn.constant dense<[[0.0, 0.0, 0xFF800000], [0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32> : tensor<3x3xf32>
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = tn.add %0, %mask : (tensor<1x2x3x3xf32>, tensor<3x3xf32>) -> tensor<1x2x3x3xf32>
  %2 = tn.softmax %1 {axis = 3 : i64} : tensor<1x2x3x3xf32>
  %3 = tn.is_nan %2 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xi1>
  %4 = tn.select %3, %zero, %2 : (tensor<1x2x3x3xi1>, tensor<f32>, tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %5 = tn.matmul %4, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %5 : tensor<1x2x3x4xf32>
}
// -----
// Heads merged with the batch, and none at all: reshapes stand around.
// CHECK-LABEL: @other_ranks
func.func @other_ranks(%q: tensor<6x5x4xf32>, %k: tensor<7x6x4xf32>, %v: tensor<6x7x4xf32>, %m: tensor<6x5x7xf32>, %a: tensor<5x4xf32>, %b: tensor<2x3x2x5x4xf32>) -> (tensor<6x5x4xf32>, tensor<5x4xf32>, tensor<2x3x2x5x4xf32>) {
  // CHECK-DAG: %[[Q:.*]] = tn.reshape %arg0 : (tensor<6x5x4xf32>) -> tensor<1x6x5x4xf32>
  // CHECK-DAG: %[[K:.*]] = tn.reshape %arg1 : (tensor<7x6x4xf32>) -> tensor<1x7x6x4xf32>
  // CHECK-DAG: %[[V:.*]] = tn.reshape %arg2 : (tensor<6x7x4xf32>) -> tensor<1x6x7x4xf32>
  // CHECK: tn.attention %[[Q]], %[[K]], %[[V]] mask %arg3 {causal = false, headsInner = array<i1: false, true, false, false>
  %0 = tn.transpose %k [1, 2, 0] : (tensor<7x6x4xf32>) -> tensor<6x4x7xf32>
  %1 = tn.matmul %q, %0 : (tensor<6x5x4xf32>, tensor<6x4x7xf32>) -> tensor<6x5x7xf32>
  %2 = tn.add %1, %m : (tensor<6x5x7xf32>, tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  %3 = tn.softmax %2 {axis = 2 : i64} : tensor<6x5x7xf32>
  %4 = tn.matmul %3, %v : (tensor<6x5x7xf32>, tensor<6x7x4xf32>) -> tensor<6x5x4xf32>
  // CHECK: tn.attention {{.*}} -> tensor<1x1x5x4xf32>
  %5 = tn.matmul %a, %a {transposeB} : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x5xf32>
  %6 = tn.softmax %5 {axis = 1 : i64} : tensor<5x5xf32>
  %7 = tn.matmul %6, %a : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  // CHECK: tn.attention {{.*}} -> tensor<6x2x5x4xf32>
  %8 = tn.matmul %b, %b {transposeB} : (tensor<2x3x2x5x4xf32>, tensor<2x3x2x5x4xf32>) -> tensor<2x3x2x5x5xf32>
  %9 = tn.softmax %8 {axis = 4 : i64} : tensor<2x3x2x5x5xf32>
  %10 = tn.matmul %9, %b : (tensor<2x3x2x5x5xf32>, tensor<2x3x2x5x4xf32>) -> tensor<2x3x2x5x4xf32>
  return %4, %7, %10 : tensor<6x5x4xf32>, tensor<5x4xf32>, tensor<2x3x2x5x4xf32>
}
// -----
// Softmax in f32 between products of f16: attention takes its scores no narrower. The mask may be wider
// than the operands.
// CHECK-LABEL: @wider_softmax
func.func @wider_softmax(%q: tensor<1x2x3x4xf16>, %k: tensor<1x2x3x4xf16>, %v: tensor<1x2x3x4xf16>, %m: tensor<1x1x3x3xf32>) -> tensor<1x2x3x4xf16> {
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 mask %arg3
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16>) -> tensor<1x2x3x3xf16>
  %1 = tn.cast %0 : (tensor<1x2x3x3xf16>) -> tensor<1x2x3x3xf32>
  %2 = tn.add %1, %m : (tensor<1x2x3x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x2x3x3xf32>
  %3 = tn.softmax %2 {axis = 3 : i64} : tensor<1x2x3x3xf32>
  %4 = tn.cast %3 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf16>
  %5 = tn.matmul %4, %v : (tensor<1x2x3x3xf16>, tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16>
  return %5 : tensor<1x2x3x4xf16>
}
// -----
// One product of f16, the other of f32, either way round: attention is of f32.
// CHECK-LABEL: @wider_values
func.func @wider_values(%q: tensor<1x2x3x4xf16>, %k: tensor<1x2x3x4xf16>, %v: tensor<1x2x3x4xf16>, %m: tensor<1x1x3x3xf16>) -> tensor<1x2x3x4xf16> {
  // CHECK-DAG: %[[Q:.*]] = tn.cast %arg0
  // CHECK-DAG: %[[K:.*]] = tn.cast %arg1
  // CHECK-DAG: %[[V:.*]] = tn.cast %arg2
  // CHECK-DAG: %[[M:.*]] = tn.cast %arg3
  // CHECK: %[[Y:.*]] = tn.attention %[[Q]], %[[K]], %[[V]] mask %[[M]]
  // CHECK-SAME: -> tensor<1x2x3x4xf32>
  // CHECK-NEXT: tn.cast %[[Y]]
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16>) -> tensor<1x2x3x3xf16>
  %1 = tn.add %0, %m : (tensor<1x2x3x3xf16>, tensor<1x1x3x3xf16>) -> tensor<1x2x3x3xf16>
  %2 = tn.cast %1 : (tensor<1x2x3x3xf16>) -> tensor<1x2x3x3xf32>
  %3 = tn.softmax %2 {axis = 3 : i64} : tensor<1x2x3x3xf32>
  %4 = tn.cast %v : (tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf32>
  %5 = tn.matmul %3, %4 : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %6 = tn.cast %5 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf16>
  return %6 : tensor<1x2x3x4xf16>
}
// CHECK-LABEL: @narrower_values
func.func @narrower_values(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16> {
  // CHECK: %[[V:.*]] = tn.cast %arg2
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %[[V]]
  // CHECK-NEXT: tn.cast %[[Y]]
  %0 = tn.matmul %q, %k {transposeB} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = tn.softmax %0 {axis = 3 : i64} : tensor<1x2x3x3xf32>
  %2 = tn.cast %1 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf16>
  %3 = tn.matmul %2, %v : (tensor<1x2x3x3xf16>, tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16>
  return %3 : tensor<1x2x3x4xf16>
}
// -----
// Keys and values whose heads are repeated for several of the queries': read once.
// CHECK-LABEL: @shared_heads
func.func @shared_heads(%q: tensor<1x6x5x4xf32>, %k: tensor<1x7x2x4xf32>, %v: tensor<1x2x7x4xf32>) -> tensor<1x6x5x4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.attention %arg0, %arg1, %arg2 {causal = false, headsInner = array<i1: false, true, false, false>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.transpose %k [0, 2, 1, 3] : (tensor<1x7x2x4xf32>) -> tensor<1x2x7x4xf32>
  %1 = tn.reshape %0 : (tensor<1x2x7x4xf32>) -> tensor<1x2x1x7x4xf32>
  %2 = tn.broadcast %1 : (tensor<1x2x1x7x4xf32>) -> tensor<1x2x3x7x4xf32>
  %3 = tn.reshape %2 : (tensor<1x2x3x7x4xf32>) -> tensor<1x6x7x4xf32>
  %4 = tn.reshape %v : (tensor<1x2x7x4xf32>) -> tensor<1x2x1x7x4xf32>
  %5 = tn.broadcast %4 : (tensor<1x2x1x7x4xf32>) -> tensor<1x2x3x7x4xf32>
  %6 = tn.reshape %5 : (tensor<1x2x3x7x4xf32>) -> tensor<1x6x7x4xf32>
  %7 = tn.transpose %3 [0, 1, 3, 2] : (tensor<1x6x7x4xf32>) -> tensor<1x6x4x7xf32>
  %8 = tn.matmul %q, %7 : (tensor<1x6x5x4xf32>, tensor<1x6x4x7xf32>) -> tensor<1x6x5x7xf32>
  %9 = tn.softmax %8 {axis = 3 : i64} : tensor<1x6x5x7xf32>
  %10 = tn.matmul %9, %6 : (tensor<1x6x5x7xf32>, tensor<1x6x7x4xf32>) -> tensor<1x6x5x4xf32>
  return %10 : tensor<1x6x5x4xf32>
}
