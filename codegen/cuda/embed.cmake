# cmake -DOUT=FILE.cpp -DROOT=FOLDER -P embed.cmake: texts of the device's headers as constants.
# A literal may hold 64 KiB by the standard, so a text is made of one for every line.
set(code "// Made by codegen/cuda/embed.cmake.\n#include \"codegen/cuda/Embedded.h\"\n\nnamespace ccl {\n")
foreach(pair "cudaAbiText|runtime/plan/CudaAbi.h" "cudaHeaderText|codegen/cuda/device/ccl.cuh"
             "cudaShimText|codegen/cuda/device/shim.h")
  string(REPLACE "|" ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${ROOT}/${file} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(APPEND code "\nconst std::string_view ${name} =\n    \"${text}\";\n")
endforeach()
string(APPEND code "\n} // namespace ccl\n")
file(WRITE ${OUT} "${code}")
