; A value put together from parts in their places, and one computed where the one before lay.
entry func @main(%x : f32[4,4] "x", %i : s64[2,1] "i", %u : f32[2,4] "u") -> ("y") {
  %a = cumulate %x {axis=1, kind="sum", exclusive=false, reverse=false} : f32[4,4] loc(onnx "m" "" 0 "a" "CumSum")
  %b = dot %a, %x {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 1 "b" "MatMul")
  %e = dot %x, %b {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 2 "e" "MatMul")
  %c = concat %b, %e {axis=0} : f32[8,4] loc(onnx "m" "" 3 "c" "Concat")
  %d = cumulate %c {axis=0, kind="sum", exclusive=false, reverse=false} : f32[8,4] loc(onnx "m" "" 4 "d" "CumSum")
  %s = scatter_nd %d, %i, %u {combine=none} : f32[8,4] loc(onnx "m" "" 5 "s" "ScatterND")
  %y = dot %s, %c {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[1]} : f32[8,8] loc(onnx "m" "" 6 "y" "MatMul")
  yield %y
}
