// NumPy's .npy files, format versions 1.0 to 3.0, C order, little-endian:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace {

struct NpyArray {
  std::string descr;                 // NumPy's type string: "<f4", "|u1", "|i1", "<i8", …
  std::vector<std::uint64_t> shape;  // empty if the array is a scalar
  std::vector<std::byte> data;       // elements in C order

  std::uint64_t elements() const;
  std::uint64_t element_bytes() const {
    return data.empty() || elements() == 0 ? 0 : data.size() / elements();
  }
};

/// Reads a .npy file. Returns kInvalidInput for Fortran order, big-endian and structured types, a header that does not
/// match the file's length, and files over 4 GiB. The message names the file and the field.
Result<NpyArray> read_npy(const std::filesystem::path& path);
/// Reads the bytes of a .npy file. Error messages contain `name` where those of read_npy() contain the path.
Result<NpyArray> parse_npy(std::span<const std::byte> bytes, const std::filesystem::path& name);
Status write_npy(const std::filesystem::path& path, const NpyArray& array);

}  // namespace millrace
