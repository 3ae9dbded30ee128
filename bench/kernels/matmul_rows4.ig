// y = x * w: 4 x 896 x 896, weights of 3.2 MB.
entry func @matmul_rows4(%x : f32[4,896] "x", %w : f32[896,896] "w") -> ("y") {
  %y = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,896]
  yield %y
}
