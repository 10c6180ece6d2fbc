// Writes programs as deployments to disk and reads them back. Damaged and inconsistent deployments must be refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <random>

#include "compiler/emit/deployment.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/image.hpp"
#include "tests/paths/paths.hpp"
#include "tests/shortcuts/cuts.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/seed.hpp"

namespace {

// The number of the write or sync operation that fails as on a full disk; 0 means that none fails.
std::atomic<int> fail_at{0};
std::atomic<int> calls{0};

bool should_fail() {
  return fail_at != 0 && ++calls == fail_at;
}

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t size) {
  if (fd > 2 && should_fail()) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_write, fd, data, size);
}

extern "C" int fsync(int fd) {
  if (should_fail()) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int syncfs(int fd) {
  if (should_fail()) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_syncfs, fd));
}

namespace millrace::compiler::emit::test_deployment {
namespace {

namespace fs = std::filesystem;
using namespace runtime::plan;

Cluster cluster(int cards) {
  static constexpr const char* kNames[] = {"one", "two", "three"};
  return load_cluster(fs::path(tests::source_dir()) / "configs" / "clusters" /
                      (std::string(kNames[cards - 1]) + "-ku060.yaml"))
      .value();
}

ModelInfo model_info(const kernels::Program& program) {
  ModelInfo info;
  info.name = "net";
  info.description = "ein Netz – mit \"Umlauten\": äöü";
  const auto signature = [&](kernels::TensorIndex index) {
    TensorSignature made{program.tensors[index].name, "FP32", {1}};
    for (const auto axis : program.tensors[index].shape) made.shape.push_back(axis);
    return made;
  };
  for (const auto index : program.inputs) info.inputs.push_back(signature(index));
  for (const auto index : program.outputs) info.outputs.push_back(signature(index));
  info.labels = {"zero", "one"};
  info.preprocessing = {"NHWC", {0.1F, 1.0F / 3}, {}};
  return info;
}

Artifacts make(const kernels::Program& program, int cards) {
  const Cluster on = cluster(cards);
  const auto solution = millrace::tests::cut_by_work(explore::make_problem(program, on, {}));
  EXPECT_TRUE(solution.ok()) << solution.error().message();
  auto artifacts = build_deployment(program, *solution, on, model_info(program));
  EXPECT_TRUE(artifacts.ok()) << artifacts.error().message();
  return std::move(artifacts).value();
}

std::vector<std::string> names(const fs::path& directory) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(directory)) found.push_back(entry.path().filename());
  return found;
}

class DeploymentTest : public testing::Test {
 protected:
  TemporaryDirectory directory_{"millrace-deployment"};
  fs::path target_ = directory_.path() / "net";
};

TEST_F(DeploymentTest, ReadingAWrittenDeploymentGivesTheSameDeployment) {
  for (const int cards : {1, 2, 3}) {
    const Artifacts made = make(tests::chain_program(4), cards);
    ASSERT_TRUE(write(made, target_).ok());
    const auto loaded = load_deployment(target_);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_EQ(loaded->plan, made.plan);
    EXPECT_EQ(loaded->plan.images.size(), static_cast<std::size_t>(cards));
    EXPECT_EQ(names(directory_.path()), std::vector<std::string>{"net"});
  }
}

TEST_F(DeploymentTest, Sha256sumAcceptsTheChecksums) {
  ASSERT_TRUE(write(make(tests::chain_program(3), 2), target_).ok());
  EXPECT_EQ(std::system(("cd '" + target_.string() + "' && sha256sum --strict --quiet -c CHECKSUMS").c_str()),
            0);
}

TEST_F(DeploymentTest, EachImageContainsOnlyItsOwnLayers) {
  const auto program = tests::chain_program(3);
  const Artifacts made = make(program, 3);
  std::vector<std::string> blocks;
  for (const auto& [path, bytes] : made.files) {
    const auto view = parse_xclbin(bytes);
    ASSERT_TRUE(view.ok());
    const auto data = decode_emulation_data(view->find(kSectionEmulationData)->bytes);
    ASSERT_TRUE(data.ok()) << data.error().message();
    ASSERT_EQ(data->programs.size(), 1U);
    for (const auto& block : data->programs[0].blocks) blocks.push_back(block.name);
  }
  EXPECT_EQ(blocks, (std::vector<std::string>{"conv0", "pool0", "conv1", "conv2"}));
}

TEST_F(DeploymentTest, QuantisersRunOnTheHostAndCardsAreJoinedByAurora) {
  const Deployment plan = make(tests::chain_program(3), 3).plan;
  std::vector<std::string> order;
  for (const auto& partition : plan.partitions) order.push_back(partition.name);
  EXPECT_EQ(order, (std::vector<std::string>{"input", "part0", "part1", "part2", "output"}));
  std::vector<std::pair<std::string, Transport>> channels;
  for (const auto& channel : plan.channels) channels.emplace_back(channel.name, channel.transport);
  const std::vector<std::pair<std::string, Transport>> expected = {
      {"model.x>input.in0", Transport::kHost},      {"input.out0>part0.in0", Transport::kHost},
      {"part0.out0>part1.in0", Transport::kAurora}, {"part1.out0>part2.in0", Transport::kAurora},
      {"part2.out0>output.in0", Transport::kHost},  {"output.out0>model.y", Transport::kHost}};
  EXPECT_EQ(channels, expected);
}

TEST_F(DeploymentTest, IsDeterministic) {
  const Artifacts a = make(tests::chain_program(4), 3), b = make(tests::chain_program(4), 3);
  EXPECT_EQ(to_json(a.plan), to_json(b.plan));
  EXPECT_EQ(a.files, b.files);
  EXPECT_EQ(a.plan.digest, b.plan.digest);
}

TEST_F(DeploymentTest, AChangedLayerChangesOnlyTheImageOfItsPartition) {
  auto program = tests::chain_program(3);
  const Artifacts before = make(program, 3);
  std::get<kernels::Convolution>(program.blocks[4].operation).bias[0] += 1;
  const Artifacts after = make(program, 3);
  EXPECT_EQ(before.plan.images[0], after.plan.images[0]);
  EXPECT_EQ(before.plan.images[1], after.plan.images[1]);
  EXPECT_NE(before.plan.images[2].uuid, after.plan.images[2].uuid);
}

TEST_F(DeploymentTest, FolderIsCompleteOrAbsentIfAnyWriteFails) {
  const Artifacts first = make(tests::chain_program(2), 2), second = make(tests::chain_program(3), 2);
  fail_at = 1000000;
  ASSERT_TRUE(write(second, target_).ok());
  const int operations = calls;
  fs::remove_all(target_);
  int failures = 0;
  for (int n = 1; n <= operations; ++n) {
    calls = 0;
    fail_at = n;
    const auto status = write(second, target_);
    fail_at = 0;
    if (status.ok()) {  // a failed sync of a directory leaves all files complete
      ASSERT_TRUE(load_deployment(target_).ok()) << "operation " << n;
      fs::remove_all(target_);
      continue;
    }
    ++failures;
    EXPECT_EQ(status.error().code(), ErrorCode::kResourceExhausted) << status.error().message();
    EXPECT_NE(status.error().message().find("space"), std::string::npos) << status.error().message();
    EXPECT_TRUE(names(directory_.path()).empty())
        << "operation " << n << " left " << names(directory_.path())[0];
  }
  EXPECT_GE(failures, 5);  // deployment.json, two FPGA images, CHECKSUMS, and a sync

  for (int n = 1; n <= operations; ++n) {  // now an older deployment exists, which must stay
    ASSERT_TRUE(write(first, target_).ok());
    calls = 0;
    fail_at = n;
    const bool written = write(second, target_).ok();
    fail_at = 0;
    const auto loaded = load_deployment(target_);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_EQ(loaded->plan, written ? second.plan : first.plan);
    EXPECT_EQ(names(directory_.path()), std::vector<std::string>{"net"});
  }
}

class DamagedDeployment : public DeploymentTest {
 protected:
  DamagedDeployment() { EXPECT_TRUE(write(make(tests::chain_program(3), 2), target_).ok()); }

  std::string text(const std::string& file) { return read_text_file(target_ / file).value(); }
  void put(const std::string& file, const std::string& content) {
    std::ofstream(target_ / file, std::ios::binary) << content;
  }
  /// Changes the plan, corrects the plan's digest, and returns the error with which validate() refuses the plan.
  template <class Change>
  std::string refusal(Change change) {
    Deployment plan = load_deployment(target_)->plan;
    change(plan);
    plan.digest = compute_digest(plan);
    const auto status = validate(plan);
    return status.ok() ? "accepted" : status.error().message();
  }
  Error load_error() {
    const auto loaded = load_deployment(target_);
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? Error(ErrorCode::kInternal, "") : loaded.error();
  }
  void sum_up() {
    ASSERT_EQ(
        std::system(
            ("cd '" + target_.string() + "' && sha256sum deployment.json images/* > CHECKSUMS").c_str()),
        0);
  }
  static void expect(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

TEST_F(DamagedDeployment, IsRefusedWithTheNameOfTheDamagedFile) {
  const std::string image = text("images/image1.xclbin");
  put("images/image1.xclbin", image.substr(0, image.size() - 1));
  expect(load_error().message(), "images/image1.xclbin: truncated or altered");
  EXPECT_EQ(load_error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(exit_code(load_error().code()), 2);
  fs::remove(target_ / "images/image1.xclbin");
  expect(load_error().message(), "images/image1.xclbin: listed in CHECKSUMS, but missing");
  fs::create_symlink("/dev/zero", target_ / "images/image1.xclbin");
  expect(load_error().message(), "images/image1.xclbin: is not a plain file");
  fs::remove(target_ / "images/image1.xclbin");
  put("images/image1.xclbin", image);
  EXPECT_TRUE(load_deployment(target_).ok());
  put("deployment.json", text("deployment.json") + " ");
  expect(load_error().message(), "deployment.json: truncated or altered");
}

TEST_F(DamagedDeployment, WithAnAlteredImageIsRefusedEvenIfChecksumsMatch) {
  std::string image = text("images/image1.xclbin");
  image[image.size() / 2] = static_cast<char>(image[image.size() / 2] ^ 1);
  put("images/image1.xclbin", image);
  sum_up();
  expect(load_error().message(), "image1.xclbin: not the file the plan was made with");
  put("images/image1.xclbin", text("images/image0.xclbin"));
  sum_up();
  expect(load_error().message(), "image1.xclbin: not the file the plan was made with");
}

TEST_F(DamagedDeployment, WhosePlanNamesOtherImagesIsRefused) {
  const Deployment plan = load_deployment(target_)->plan;
  const auto refusal_of = [&](const std::function<void(Deployment&)>& change) {
    Deployment changed = plan;
    change(changed);
    changed.digest = compute_digest(changed);
    put("deployment.json", to_json(changed));
    sum_up();
    return load_error().message();
  };
  for (const char* file : {"../image0.xclbin", "/etc/passwd", ""})
    expect(refusal_of([&](auto& p) { p.images[0].file = file; }),
           "image 'image0': CHECKSUMS does not list " + std::string(file));
  expect(refusal_of([](auto& p) { p.images[1].file = p.images[0].file; }),
         "not the file the plan was made with");
  expect(refusal_of([](auto& p) { p.images[0].file_sha256 = "x"; }), "not the file the plan was made with");
  expect(refusal_of([](auto& p) { p.images[0].uuid = "x"; }), "image0.xclbin: its uuid is ");
  expect(refusal_of([](auto& p) { p.images[0].content_digest = "x"; }),
         "the record in the image (USER_METADATA) does not match");
  expect(refusal_of([](auto& p) { p.partitions[1].program_digest = "x"; }),
         "contains a partition other than 'part0'");
}

TEST_F(DamagedDeployment, WithoutValidChecksumsIsRefused) {
  fs::remove(target_ / "CHECKSUMS");
  EXPECT_EQ(load_error().code(), ErrorCode::kNotFound);
  expect(load_error().message(), "CHECKSUMS");
  put("CHECKSUMS", "nonsense\n");
  expect(load_error().message(), "CHECKSUMS:1: malformed");
  put("CHECKSUMS", std::string(64, 'a') + "  ../../etc/passwd\n");
  expect(load_error().message(), "CHECKSUMS:1: malformed");
  put("CHECKSUMS", "");
  expect(load_error().message(), "does not list deployment.json");
}

TEST_F(DamagedDeployment, MissingDirectoryIsNotFound) {
  const auto loaded = load_deployment(directory_.path() / "absent");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code(), ErrorCode::kNotFound);
  expect(loaded.error().message(), "no such directory");
}

TEST_F(DamagedDeployment, OfAnotherSchemaIsRefusedWithTheSchemaNumber) {
  std::string json = text("deployment.json");
  json.replace(json.find("\"schema_version\": 1"), 19, "\"schema_version\": 2, \"news\": {}");
  const auto newer = parse_deployment(json);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code(), ErrorCode::kUnsupported);
  expect(newer.error().message(), "schema_version 2 is newer");
  expect(parse_deployment("{}").error().message(), "schema_version is missing");
}

TEST_F(DamagedDeployment, WithInvalidUtf8IsNeitherWrittenNorRead) {
  Deployment plan = load_deployment(target_)->plan;
  plan.model.description = "caf\xe9";
  EXPECT_THROW(to_json(plan), std::invalid_argument);
  for (const char* text : {"caf\xe9", "\\ud800"}) {
    std::string json = this->text("deployment.json");
    const std::string field = "\"description\": \"";
    json.insert(json.find(field) + field.size(), text);
    EXPECT_FALSE(parse_deployment(json).ok()) << text;
  }
}

TEST_F(DamagedDeployment, WithAnUnknownFieldIsRefusedByFieldName) {
  std::string json = text("deployment.json");
  json.insert(json.find("\"generator\""), "\"colour\": 3, ");
  expect(parse_deployment(json).error().message(), "colour");
}

TEST_F(DamagedDeployment, MutatedJsonNeverCrashesTheReader) {
  const std::string json = text("deployment.json");
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string changed = json;
    for (unsigned i = 0; i < 1 + random() % 3; ++i)
      changed[random() % changed.size()] = static_cast<char>(random());
    if (random() % 8 == 0) changed.resize(random() % changed.size());
    const auto plan = parse_deployment(changed);
    if (!plan.ok() || !validate(*plan).ok()) continue;
    ASSERT_EQ(to_json(*plan), json) << "MILLRACE_SEED=" << seed;
  }
  EXPECT_FALSE(parse_deployment(std::string(200000, '[')).ok());
  EXPECT_FALSE(parse_deployment("").ok());
}

TEST_F(DamagedDeployment, WithInconsistentPartsIsRefusedAndTheErrorSaysWhy) {
  const auto accepted = refusal([](auto&) {});
  EXPECT_EQ(accepted, "accepted");
  expect(refusal([](auto& p) { p.model.name = "a/b"; }), "model.name");
  expect(refusal([](auto& p) { p.model.inputs.clear(); }), "model.inputs");
  expect(refusal([](auto& p) { p.model.inputs[0].datatype = "FLOAT"; }), "unknown datatype 'FLOAT'");
  expect(refusal([](auto& p) { p.model.inputs[0].shape[1] = -1; }), "shape");
  expect(refusal([](auto& p) {
           p.model.inputs[0].shape = {1, 4294967296, 4294967296, 4294967296};
         }),
         "shape");
  expect(refusal([](auto& p) { p.model.inputs[0].shape[1] += 1; }), "model.x>input.in0");
  expect(refusal([](auto& p) { p.model.preprocessing.layout = "CHWN"; }), "layout");
  expect(refusal([](auto& p) { p.endpoints[1].device = "vu9p"; }), "needs device 'vu9p'");
  expect(refusal([](auto& p) { p.endpoints[1].image = "none"; }), "image");
  expect(refusal([](auto& p) { p.endpoints[0].image = "image0"; }), "image");
  expect(refusal([](auto& p) { p.endpoints.push_back(p.endpoints[1]); }), "is used twice");
  expect(refusal([](auto& p) { p.images[0].partitions = {"part1"}; }), "part1");
  expect(refusal([](auto& p) { p.images[0].partitions.clear(); }), "holds no partition");
  expect(refusal([](auto& p) { p.partitions[1].kind = PartitionKind::kAie; }), "AIE");
  expect(refusal([](auto& p) { p.partitions[1].endpoint = "card7"; }), "endpoint 'card7'");
  expect(refusal([](auto& p) { p.partitions[1].endpoint = "host"; }), "another kind");
  expect(refusal([](auto& p) { p.partitions[1].name = "part 0"; }), "malformed");
  expect(refusal([](auto& p) { p.partitions[0].inputs[0].shape[0] += 1; }), "ports do not match its program");
  expect(refusal([](auto& p) {
           p.partitions[0].program_digest[0] = p.partitions[0].program_digest[0] == 'a' ? 'b' : 'a';
         }),
         "program_digest");
  expect(refusal([](auto& p) { p.partitions[0].program.blocks[0].operation = kernels::PluginOperator{}; }),
         "belongs to a plugin");
  expect(refusal([](auto& p) { p.partitions[1].inputs[0].shape[0] += 1; }), "partition 'part0': port 'in0'");
  expect(refusal([](auto& p) { std::swap(p.partitions[1], p.partitions[2]); }), "topological order");
  expect(refusal([](auto& p) { p.channels[2].id = 0; }), "is used twice");
  expect(refusal([](auto& p) { p.channels[2].producer.port = "out9"; }), "no port 'part0.out9'");
  expect(refusal([](auto& p) { p.channels[0].producer.port = "z"; }), "no such tensor 'z'");
  expect(refusal([](auto& p) { p.channels[2].type.bits = 7; }), "type");
  expect(refusal([](auto& p) { p.channels[2].frame_bytes += 1; }), "frame_bytes");
  expect(refusal([](auto& p) { p.channels[2].credits = 0; }), "credits");
  expect(refusal([](auto& p) { p.channels[0].credits = 1; }), "credits");
  expect(refusal([](auto& p) { p.channels[2].transport = Transport::kHost; }), "joins two cards");
  expect(refusal([](auto& p) {
           p.channels[2].transport = Transport::kUdp;
           p.channels[2].credits = 65'537;
         }),
         "at most 65443 and 65536 for UDP");
  expect(refusal([](auto& p) { p.channels[1].transport = Transport::kAurora; }), "an end on the host");
  expect(refusal([](auto& p) { p.channels[2].slice.count += 1; }), "slice");
  expect(refusal([](auto& p) { p.channels[2].slice = {~0ULL, ~0ULL, ~0ULL, ~0ULL}; }), "slice");
  expect(refusal([](auto& p) {
           p.channels[2].slice.count -= 1;
           p.channels[2].frame_bytes -= 1;
         }),
         "exactly the tensor of this port");
  expect(refusal([](auto& p) { p.channels.pop_back(); }), "output");
  expect(refusal([](auto& p) { p.communication.pop_back(); }), "no port");
  expect(refusal([](auto& p) { p.communication[0].steps.clear(); }), "no port receives it");
  expect(refusal([](auto& p) { p.communication[0].steps[0].action = Action::kSend; }), "not sent here");
  expect(refusal([](auto& p) { p.communication[0].steps[0].bytes -= 1; }),
         "the step's field 'bytes' differs");
  expect(refusal([](auto& p) { p.communication[0].steps[0].channel = 99; }),
         "channel 99 is not received here");
  expect(refusal([](auto& p) { p.communication[0].steps.push_back(p.communication[0].steps[0]); }),
         "received twice");
  expect(refusal([](auto& p) { p.communication[0].endpoint = "card0"; }), "endpoint 'card0'");
  expect(refusal([](auto& p) { p.replicas = 0; }), "replicas: 0 is not in 1 to 64");
  expect(refusal([](auto& p) { p.replicas = 65; }), "replicas: 65 is not in 1 to 64");
  Deployment plan = load_deployment(target_)->plan;
  plan.generator = "someone";
  expect(validate(plan).error().message(), "digest");
}

/// Writes a deployment, reads it back, and makes an emulated cluster for it.
Cluster emulated(const Artifacts& artifacts, std::uint32_t replicas = 1) {
  const TemporaryDirectory directory("millrace-emulated");
  EXPECT_TRUE(write(artifacts, directory.path() / "net").ok());
  const auto loaded = load_deployment(directory.path() / "net");
  EXPECT_TRUE(loaded.ok()) << loaded.error().message();
  auto made = emulated_cluster_for(*loaded, replicas);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return std::move(made).value();
}

TEST(EmulatedCluster, CardsHaveTheMemoryOfTheirDeviceFile) {
  std::size_t devices = 0;
  for (const auto& file : fs::directory_iterator(fs::path(tests::source_dir()) / "configs" / "devices")) {
    const auto device = load_device(file.path());
    ASSERT_TRUE(device.ok()) << device.error().message();
    SCOPED_TRACE(device->name);
    Cluster on;
    on.name = "one";
    on.emulated = true;
    on.cards = {{"fpga0", device->name, ""}};
    on.devices = {{device->name, *device}};
    const auto program = tests::chain_program(1);
    const auto solution = millrace::tests::cut_by_work(explore::make_problem(program, on, {}));
    ASSERT_TRUE(solution.ok()) << solution.error().message();
    const auto artifacts = build_deployment(program, *solution, on, model_info(program));
    ASSERT_TRUE(artifacts.ok()) << artifacts.error().message();
    const Cluster made = emulated(*artifacts);
    std::uint64_t wanted = 0, has = 0;
    for (const auto& bank : device->memory) wanted += bank.capacity_bytes;
    for (const auto& bank : made.devices.at(device->name).memory) has += bank.capacity_bytes;
    EXPECT_EQ(has, wanted);
    ++devices;
  }
  EXPECT_GE(devices, 9U);
}

TEST(EmulatedCluster, HasTheCardsAndCablesOfItsDeployment) {
  const Cluster made = emulated(make(tests::chain_program(3), 3));
  EXPECT_TRUE(made.emulated);
  ASSERT_EQ(made.cards.size(), 3U);
  ASSERT_EQ(made.cables.size(), 2U);
  EXPECT_EQ(made.cards[1].name, "card1");
  EXPECT_EQ(made.cables[1].a, (CableEnd{"card1", 1}));
  EXPECT_EQ(made.cables[1].b, (CableEnd{"card2", 0}));
  EXPECT_EQ(made.device_of(made.cards[0]).connectors, 2U);
  Binding binding;
  for (const auto& card : made.cards) binding[card.name] = card.name;
  EXPECT_TRUE(check_communication(make(tests::chain_program(3), 3).plan, made, binding).ok());
}

TEST(EmulatedCluster, HasCardsAndCablesForEveryReplica) {
  const Cluster made = emulated(make(tests::chain_program(3), 2), 3);
  ASSERT_EQ(made.cards.size(), 6U);
  ASSERT_EQ(made.cables.size(), 3U);
  EXPECT_EQ(made.cards[5].name, "card1-3");
  EXPECT_EQ(made.cables[2].a, (CableEnd{"card0-3", 0}));
  EXPECT_EQ(made.cables[2].b, (CableEnd{"card1-3", 0}));
}

TEST(DeploymentJson, ListsReplicasOnlyIfThereIsMoreThanOne) {
  Deployment plan = make(tests::chain_program(2), 1).plan;
  EXPECT_EQ(to_json(plan).find("replicas"), std::string::npos);
  plan.replicas = 3;
  const auto back = parse_deployment(to_json(plan));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->replicas, 3U);
}

}  // namespace
}  // namespace millrace::compiler::emit::test_deployment
