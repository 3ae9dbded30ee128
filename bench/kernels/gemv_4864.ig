// One row by 896 x 4864: 17 MB of weights.
entry func @gemv_4864(%x : f32[1,896] "x", %w : f32[896,4864] "w") -> ("y") {
  %y = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[1,4864]
  yield %y
}
