// Causal attention of 64 queries, 12 heads of 64, operands side by side.
entry func @attention_64(%x : f32[1,64,2304] "x") -> ("y") {
  %q0 = slice %x {start=[0,0,0], size=[1,64,768], step=[1,1,1]} : f32[1,64,768]
  %q1 = reshape %q0 {shape=[1,64,12,64]} : f32[1,64,12,64]
  %q2 = transpose %q1 {perm=[0,2,1,3]} : f32[1,12,64,64]
  %k0 = slice %x {start=[0,0,768], size=[1,64,768], step=[1,1,1]} : f32[1,64,768]
  %k1 = reshape %k0 {shape=[1,64,12,64]} : f32[1,64,12,64]
  %k2 = transpose %k1 {perm=[0,2,1,3]} : f32[1,12,64,64]
  %v0 = slice %x {start=[0,0,1536], size=[1,64,768], step=[1,1,1]} : f32[1,64,768]
  %v1 = reshape %v0 {shape=[1,64,12,64]} : f32[1,64,12,64]
  %v2 = transpose %v1 {perm=[0,2,1,3]} : f32[1,12,64,64]
  %a = sdpa %q2, %k2, %v2 {scale=0.125, causal=true, softcap=0.0} : f32[1,12,64,64]
  %t = transpose %a {perm=[0,2,1,3]} : f32[1,64,12,64]
  %y = reshape %t {shape=[1,64,768]} : f32[1,64,768]
  yield %y
}
