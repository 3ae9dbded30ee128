// Attention of 512 queries, 12 heads of 64, with a mask over the keys; queries, keys and values side by side.
entry func @attention_512(%x : f32[1,512,2304] "x", %mask : f32[1,1,1,512] "mask") -> ("y") {
  %q0 = slice %x {start=[0,0,0], size=[1,512,768], step=[1,1,1]} : f32[1,512,768]
  %q1 = reshape %q0 {shape=[1,512,12,64]} : f32[1,512,12,64]
  %q2 = transpose %q1 {perm=[0,2,1,3]} : f32[1,12,512,64]
  %k0 = slice %x {start=[0,0,768], size=[1,512,768], step=[1,1,1]} : f32[1,512,768]
  %k1 = reshape %k0 {shape=[1,512,12,64]} : f32[1,512,12,64]
  %k2 = transpose %k1 {perm=[0,2,1,3]} : f32[1,12,512,64]
  %v0 = slice %x {start=[0,0,1536], size=[1,512,768], step=[1,1,1]} : f32[1,512,768]
  %v1 = reshape %v0 {shape=[1,512,12,64]} : f32[1,512,12,64]
  %v2 = transpose %v1 {perm=[0,2,1,3]} : f32[1,12,512,64]
  %a = sdpa %q2, %k2, %v2, %mask {scale=0.125, causal=false, softcap=0.0} : f32[1,12,512,64]
  %t = transpose %a {perm=[0,2,1,3]} : f32[1,512,12,64]
  %y = reshape %t {shape=[1,512,768]} : f32[1,512,768]
  yield %y
}
