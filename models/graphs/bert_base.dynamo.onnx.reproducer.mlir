// 0.1.0, TN0401: no code for node_embedding+node_embedding_1+node_add_10+node_slice_1+node_embedding_2+node_add_18+node_layer_norm (strategy rows, sm_80): it ended by a signal (Segmentation fault)
// model /work/main/models/graphs/bert_base.dynamo.onnx
// options {"allow_tanh_gelu":false,"allow_tf32":false,"guard":false,"levels":["sm_80","sm_89","sm_90","sm_100"],"optimize":true,"precision":"keep","profile":"538cfee232cc9b67051db15ed4e0b33b","shapes":{}}
#map = affine_map<()[s0, s1] -> (0, 0)>
module attributes {tn.symbols = [#tn.symbol<"s0", 1, 65536>, #tn.symbol<"s1", 1, 512>]} {
  func.func @kernel(%arg0: tensor<30522x768xf32> {tn.constant}, %arg1: tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>, %arg2: tensor<2x768xf32> {tn.constant}, %arg3: tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>, %arg4: tensor<1x512xi64> {tn.constant}, %arg5: tensor<512x768xf32> {tn.constant}, %arg6: tensor<768xf32> {tn.constant}, %arg7: tensor<768xf32> {tn.constant}) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>> attributes {tn.strategy = "rows"} {
    %0 = tn.gather %arg0, %arg1 {axis = 0 : i64} : (tensor<30522x768xf32>, tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    %1 = tn.gather %arg2, %arg3 {axis = 0 : i64} : (tensor<2x768xf32>, tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    %2 = tn.add %0, %1 : (tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    %3 = tn.slice %arg4 {starts = #map, steps = array<i64: 1, 1>} : (tensor<1x512xi64>) -> tensor<1x?xi64, #tn.shape<()[s0, s1] -> (1, s1)>>
    %4 = tn.gather %arg5, %3 {axis = 0 : i64} : (tensor<512x768xf32>, tensor<1x?xi64, #tn.shape<()[s0, s1] -> (1, s1)>>) -> tensor<1x?x768xf32, #tn.shape<()[s0, s1] -> (1, s1, 768)>>
    %5 = tn.add %2, %4 : (tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<1x?x768xf32, #tn.shape<()[s0, s1] -> (1, s1, 768)>>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    %6 = tn.layer_norm %5 scale %arg6 bias %arg7 {axis = 2 : i64, epsilon = 9.999999960041972E-13 : f64} : (tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<768xf32>, tensor<768xf32>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    return %6 : tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
  }
}
