# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=x.c "-DFILES=a/one.html;a/two.js" -P embed.cmake: C arrays one_html, two_js of the files' bytes and a final 0.
set(text "")
foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "extern const unsigned char ${name}[];\nconst unsigned char ${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${text}")
