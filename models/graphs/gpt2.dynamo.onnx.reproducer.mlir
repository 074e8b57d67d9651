// 0.1.0, TN0401: no code for node_embedding+node_embedding_1+node_add_17+node_layer_norm (strategy rows, sm_80): it ended by a signal (Segmentation fault)
// model /work/main/models/graphs/gpt2.dynamo.onnx
// options {"allow_tanh_gelu":false,"allow_tf32":false,"guard":false,"levels":["sm_80","sm_89","sm_90","sm_100"],"optimize":true,"precision":"keep","profile":"538cfee232cc9b67051db15ed4e0b33b","shapes":{}}
module attributes {tn.symbols = [#tn.symbol<"s0", 1, 65536>, #tn.symbol<"s1", 1, 65536>]} {
  func.func @kernel(%arg0: tensor<50257x768xf32> {tn.constant}, %arg1: tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>, %arg2: tensor<1024x768xf32> {tn.constant}, %arg3: tensor<1x?xi64, #tn.shape<()[s0, s1] -> (1, s1)>>, %arg4: tensor<768xf32> {tn.constant}, %arg5: tensor<768xf32> {tn.constant}) -> (tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>) attributes {tn.strategy = "rows"} {
    %0 = tn.gather %arg0, %arg1 {axis = 0 : i64} : (tensor<50257x768xf32>, tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    %1 = tn.gather %arg2, %arg3 {axis = 0 : i64} : (tensor<1024x768xf32>, tensor<1x?xi64, #tn.shape<()[s0, s1] -> (1, s1)>>) -> tensor<1x?x768xf32, #tn.shape<()[s0, s1] -> (1, s1, 768)>>
    %2 = tn.add %0, %1 : (tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<1x?x768xf32, #tn.shape<()[s0, s1] -> (1, s1, 768)>>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    %3 = tn.layer_norm %2 scale %arg4 bias %arg5 {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64} : (tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<768xf32>, tensor<768xf32>) -> tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
    return %2, %3 : tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>, tensor<?x?x768xf32, #tn.shape<()[s0, s1] -> (s0, s1, 768)>>
  }
}
