#include "runtime/plugins/library.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::runtime::plugins {
namespace {

namespace fs = std::filesystem;

constexpr char kFactory[] = "get_plugin";
constexpr char kHeader[] = "millrace_plugin.h";

bool is_shared_object(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Elf64_Ehdr)) return false;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_type == ET_DYN;
}

/// Loads a library from these bytes, whatever happens to its file meanwhile.
Result<void*> load(std::span<const std::byte> bytes, const std::string& name) {
  const auto no_memory = [] {
    return Error(ErrorCode::kResourceExhausted, "no memory for it: " + std::string(std::strerror(errno)));
  };
  // Do not close the descriptor. Its number is part of the path below, and a closed number is used again. dlopen()
  // would then return this library instead of the next one, because it recognises loaded libraries by their paths.
  const int memory = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (memory < 0) return no_memory();
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(memory, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      ::close(memory);
      return no_memory();
    }
    done += static_cast<std::size_t>(written);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(memory);
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* const why = ::dlerror();
  return Error(
      ErrorCode::kInvalidInput,
      "it does not load: " + printable(why == nullptr ? "unknown reason" : why) +
          "; build the plugin as a shared library for this machine, linked with all libraries that it uses");
}

/// Checks the table that a plugin returned.
Status check_table(const millrace_plugin* api) {
  const auto invalid = [](const std::string& why) { return Error(ErrorCode::kInvalidInput, why); };
  if (api == nullptr) return invalid("get_plugin() returned NULL: the plugin does not work on this machine");
  if (api->abi != MILLRACE_PLUGIN_ABI)
    return invalid("it was built for version " + std::to_string(api->abi) +
                   " of the plugin interface, but this Millrace has version " +
                   std::to_string(MILLRACE_PLUGIN_ABI) + "; build it again with the " + kHeader +
                   " of this Millrace");
  if (api->name == nullptr || !is_name(std::string_view(api->name), 64))
    return invalid(std::string(
        "the field 'name' of its millrace_plugin must have 1 to 64 of the characters A-Z a-z 0-9 _ - ."));
  if (api->partition == nullptr || api->compile == nullptr || api->build == nullptr || api->run == nullptr)
    return invalid("its millrace_plugin lacks a function; set 'partition', 'compile', 'build' and 'run'");
  return {};
}

class Model : public kernels::PluginModel {
 public:
  Model(std::shared_ptr<const Library> library, const kernels::Program& program, const kernels::Block& block)
      : library_(std::move(library)), view_(program, block) {}

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const override {
    constexpr std::size_t kMostPorts = 16;  // kernels::validate() checks it
    std::array<const void*, kMostPorts> from{};
    std::array<void*, kMostPorts> to{};
    std::copy(inputs.begin(), inputs.end(), from.begin());
    std::copy(outputs.begin(), outputs.end(), to.begin());
    std::string said;
    millrace_answer answer{};
    answer.context = &said;
    answer.select = [](void*, const millrace_subgraph*) {};
    answer.offer = [](void*, const millrace_candidate*) {};
    answer.add_file = [](void*, const char*, const char*) {};
    answer.fail = [](void* context, const char* message) {
      *static_cast<std::string*>(context) = message == nullptr ? "" : message;
    };
    int code = 0;
    try {
      code = library_->api().run(&view_.block(), from.data(), to.data(), &answer);
    } catch (const std::exception& thrown) {
      throw failure(std::string("run() threw an exception: ") + thrown.what());
    } catch (...) {
      throw failure("run() threw an exception");
    }
    if (code == 0) return;
    if (!said.empty()) said = ": " + said;
    throw failure("run() returned " + std::to_string(code) + said);
  }

 private:
  kernels::PluginFailure failure(const std::string& why) const {
    return kernels::PluginFailure(
        printable("plugin '" + library_->name() + "', block '" + view_.block().name + "': " + why));
  }

  std::shared_ptr<const Library> library_;
  BlockView view_;
};

}  // namespace

bool is_library(const fs::path& file) {
  std::array<char, sizeof(Elf64_Ehdr)> head{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (!stream || !is_shared_object(std::as_bytes(std::span(head)))) return false;
  Elf64_Ehdr header;
  std::memcpy(&header, head.data(), sizeof header);
  // A position-independent executable has the same ELF type as a shared library, but only an executable names an
  // interpreter.
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    stream.seekg(static_cast<std::streamoff>(header.e_phoff +
                                             std::uint64_t{header.e_phentsize} * static_cast<unsigned>(i)));
    stream.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!stream) return true;  // loading it will say what is wrong
    if (segment.p_type == PT_INTERP) return false;
  }
  return true;
}

Result<std::shared_ptr<const Library>> Library::open(const fs::path& file, const std::string& sha256) {
  const auto within = [&](const Error& error) { return error.within("plugin '" + file.string() + "'"); };
  auto bytes = read_file(file, kMostLibraryBytes);
  if (!bytes.ok()) return bytes.error();
  std::string digest = sha256_hex(*bytes);
  if (!sha256.empty() && digest != sha256)
    return within(Error(ErrorCode::kCorrupt, "its SHA-256 is " + digest + ", not " + sha256 +
                                                 "; compile the model again with this plugin"));
  if (!is_shared_object(*bytes))
    return within(
        Error(ErrorCode::kInvalidInput,
              "it is not a shared library for 64-bit Linux (ELF); give the .so file of the plugin"));
  const auto handle = load(*bytes, file.filename().string());
  if (!handle.ok()) return within(handle.error());
  void* const symbol = ::dlsym(*handle, kFactory);
  if (symbol == nullptr)
    return within(Error(ErrorCode::kInvalidInput,
                        std::string("it does not export the function ") + kFactory +
                            "; define it with extern \"C\" and default visibility, as " + kHeader + " says"));
  const millrace_plugin* api = nullptr;
  try {
    api = reinterpret_cast<const millrace_plugin* (*)()>(symbol)();
  } catch (...) {
    return within(Error(ErrorCode::kInvalidInput, "get_plugin() threw an exception; correct the plugin"));
  }
  if (const Status checked = check_table(api); !checked.ok()) return within(checked.error());
  return std::shared_ptr<const Library>(new Library(api, std::move(digest)));
}

BlockView::BlockView(const kernels::Program& program, const kernels::Block& block) : name_(block.name) {
  const auto& op = std::get<kernels::PluginOperator>(block.operation);
  runner_ = op.runner;
  settings_ = op.settings;
  for (const auto* list : {&block.inputs, &block.outputs})
    for (const kernels::TensorIndex i : *list) tensors_.push_back(program.tensors[i]);
  for (const kernels::Tensor& t : tensors_)
    described_.push_back(
        {static_cast<std::uint32_t>(t.type.kind), t.type.bits, t.shape.data(), t.shape.size(), t.elements()});
  const std::size_t inputs = block.inputs.size();
  block_ = {name_.c_str(),       runner_.c_str(), settings_.c_str(),
            described_.data(),   inputs,          described_.data() + inputs,
            block.outputs.size()};
}

std::shared_ptr<const kernels::PluginModel> model_of(std::shared_ptr<const Library> library,
                                                     const kernels::Program& program,
                                                     const kernels::Block& block) {
  return std::make_shared<const Model>(std::move(library), program, block);
}

}  // namespace millrace::runtime::plugins
