; Every kind of location; derived ones that are long are named.
loc #1 = fused [text "a.ig" 1:2, onnx "m.onnx" "" 3 "fc1" "Gemm", from "expand" text "b" 0:4294967295]
loc #7 = from "fuse" fused [#1, text "c" 3:4, text "c" 5:6, text "c" 7:8]
entry func @main(%x : f32[] "x") -> ("y") {
  %0 = neg %x : f32[]  loc(text "a.ig" 12:5)
  %1 = neg %0 : f32[]  loc(onnx "dir/m.onnx" "loop_1/body" 3 "node \"name\"" "Gemm")
  %2 = neg %1 : f32[]  loc(from "adjoint" onnx "m.onnx" "" 0 "" "Relu")
  %3 = neg %2 : f32[]  loc(#7)
  %4 = neg %3 : f32[]  loc(from "simplify" #7)
  %5 = neg %4 : f32[]  loc(fused [from "a" text "f" 1:1, from "b" text "f" 1:2])
  %6 = neg %5 : f32[]  ; takes the position in this file
  yield %6 loc(#1)
}
