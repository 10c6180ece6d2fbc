// Reads NumPy's .npz files: zip archives of .npy files, as numpy.savez and numpy.savez_compressed write them.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runtime/base/npy.hpp"
#include "runtime/base/result.hpp"

namespace millrace::clients {

/// Returns the arrays by name. Returns kInvalidInput for a file that is no zip archive or is damaged, for encrypted
/// entries, for compressions other than deflate, for arrays over 4 GiB, and for arrays that read_npy() refuses. Also
/// returns the errors of reading the file.
Result<std::map<std::string, NpyArray>> read_npz(const std::filesystem::path& path);

}  // namespace millrace::clients
