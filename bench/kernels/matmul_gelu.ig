// y = gelu(x * w + bias): 512 x 3072 x 768.
entry func @matmul_gelu(%x : f32[512,768] "x", %w : f32[768,3072] "w", %bias : f32[1,3072] "bias") -> ("y") {
  %xw = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[512,3072]
  %b = broadcast %bias {shape=[512,3072]} : f32[512,3072]
  %s = add %xw, %b : f32[512,3072]
  %y = gelu %s {approx=none} : f32[512,3072]
  yield %y
}
