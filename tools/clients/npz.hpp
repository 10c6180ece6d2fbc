// Reads NumPy's .npz files: zip archives of .npy files, as numpy.savez and numpy.savez_compressed write them.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runtime/base/npy.hpp"
#include "runtime/base/result.hpp"

namespace millrace::clients {

/// Returns the arrays by name. kInvalidInput for a file that is no zip archive or is damaged, for encrypted entries and
/// other compressions than deflate, for arrays over 4 GiB, and for what read_npy() refuses; the errors of reading.
Result<std::map<std::string, NpyArray>> read_npz(const std::filesystem::path& path);

}  // namespace millrace::clients
