// RUN: %tenon-opt %s --pass=simplify,recognize-gelu --check | FileCheck %s

// torch's spelling with a division; the bias before it is shared and stays.
// CHECK-LABEL: @division
func.func @division(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %sqrt2 = tn.constant dense<1.41421354> : tensor<f32> : tensor<f32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  // CHECK-NEXT: %[[Y:.*]] = tn.gelu %arg0 : tensor<2x8xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.div %x, %sqrt2 : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %1 = tn.erf %0 : tensor<2x8xf32>
  %2 = tn.add %1, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = tn.mul %x, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = tn.mul %3, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  return %4 : tensor<2x8xf32>
}
// -----
// x/2 first, constants in front, as a splat and as a weight.
// CHECK-LABEL: @half_first
func.func @half_first(%x: tensor<2x8xf16>) -> tensor<2x8xf16> {
  %c = tn.constant dense<0.7071> : tensor<2x8xf16> : tensor<2x8xf16>
  %one = tn.constant dense<1.0> : tensor<1xf16> : tensor<1xf16>
  %two = tn.constant dense<2.0> : tensor<1x1xf16> : tensor<1x1xf16>
  // CHECK-NEXT: %[[Y:.*]] = tn.gelu %arg0 : tensor<2x8xf16>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.mul %c, %x : (tensor<2x8xf16>, tensor<2x8xf16>) -> tensor<2x8xf16>
  %1 = tn.erf %0 : tensor<2x8xf16>
  %2 = tn.add %one, %1 : (tensor<1xf16>, tensor<2x8xf16>) -> tensor<2x8xf16>
  %3 = tn.div %x, %two : (tensor<2x8xf16>, tensor<1x1xf16>) -> tensor<2x8xf16>
  %4 = tn.mul %2, %3 : (tensor<2x8xf16>, tensor<2x8xf16>) -> tensor<2x8xf16>
  return %4 : tensor<2x8xf16>
}
// -----
// GPT-2's tanh form with a power, over a symbolic batch.
#batch = #tn.shape<()[s0] -> (s0, 8)>
// CHECK-LABEL: @tanh_power
module attributes {tn.symbols = [#tn.symbol<"n", 1, 8>]} {
func.func @tanh_power(%x: tensor<?x8xf32, #batch>) -> tensor<?x8xf32, #batch> {
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %three = tn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %cubic = tn.constant dense<0.0447149985> : tensor<f32> : tensor<f32>
  %outer = tn.constant dense<0.797884583> : tensor<f32> : tensor<f32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  // CHECK-NEXT: %[[Y:.*]] = tn.gelu %arg0 {approximate}
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.mul %x, %half : (tensor<?x8xf32, #batch>, tensor<f32>) -> tensor<?x8xf32, #batch>
  %1 = tn.pow %x, %three : (tensor<?x8xf32, #batch>, tensor<f32>) -> tensor<?x8xf32, #batch>
  %2 = tn.mul %1, %cubic : (tensor<?x8xf32, #batch>, tensor<f32>) -> tensor<?x8xf32, #batch>
  %3 = tn.add %x, %2 : (tensor<?x8xf32, #batch>, tensor<?x8xf32, #batch>) -> tensor<?x8xf32, #batch>
  %4 = tn.mul %3, %outer : (tensor<?x8xf32, #batch>, tensor<f32>) -> tensor<?x8xf32, #batch>
  %5 = tn.tanh %4 : tensor<?x8xf32, #batch>
  %6 = tn.add %5, %one : (tensor<?x8xf32, #batch>, tensor<f32>) -> tensor<?x8xf32, #batch>
  %7 = tn.mul %0, %6 : (tensor<?x8xf32, #batch>, tensor<?x8xf32, #batch>) -> tensor<?x8xf32, #batch>
  return %7 : tensor<?x8xf32, #batch>
}
}
// -----
// The tanh form with x drawn out: sqrt(2/pi) x (1 + 0.044715 x x).
// CHECK-LABEL: @tanh_drawn_out
func.func @tanh_drawn_out(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %cubic = tn.constant dense<0.044715> : tensor<f32> : tensor<f32>
  %outer = tn.constant dense<0.797884583> : tensor<f32> : tensor<f32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  // CHECK-NEXT: %[[Y:.*]] = tn.gelu %arg0 {approximate}
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.mul %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = tn.mul %0, %cubic : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = tn.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = tn.mul %x, %outer : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = tn.mul %3, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = tn.tanh %4 : tensor<8xf32>
  %6 = tn.add %5, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = tn.mul %6, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = tn.mul %7, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %8 : tensor<8xf32>
}
// -----
// A constant that is not 1/sqrt(2): another function.
// CHECK-LABEL: @wrong_constant
// CHECK-NOT: tn.gelu
func.func @wrong_constant(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = tn.constant dense<0.7072> : tensor<f32> : tensor<f32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = tn.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = tn.erf %0 : tensor<8xf32>
  %2 = tn.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = tn.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tn.mul %3, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
// -----
// The erf is a result too: recognizing would compute it twice.
// CHECK-LABEL: @shared
// CHECK-NOT: tn.gelu
func.func @shared(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = tn.constant dense<0.707106769> : tensor<f32> : tensor<f32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = tn.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = tn.erf %0 : tensor<8xf32>
  %2 = tn.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = tn.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tn.mul %3, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %4, %1 : tensor<8xf32>, tensor<8xf32>
}
// -----
// The gate is of another value than the argument of erf.
// CHECK-LABEL: @other_gate
// CHECK-NOT: tn.gelu
func.func @other_gate(%x: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {
  %c = tn.constant dense<0.707106769> : tensor<f32> : tensor<f32>
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = tn.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = tn.erf %0 : tensor<8xf32>
  %2 = tn.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = tn.mul %z, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = tn.mul %3, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
