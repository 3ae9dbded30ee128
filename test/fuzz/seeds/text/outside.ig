weight @w : f32[128] = file "../w.igw" @0, hash 0x0
