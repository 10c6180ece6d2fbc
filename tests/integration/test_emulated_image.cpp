// Tests that an emulated card refuses every bad FPGA image with a reason and loads a good image afterwards.
#include <gtest/gtest.h>
#include <xrt/xclbin.h>

#include <cstring>
#include <functional>
#include <random>

#include "emulated_host.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/seed.hpp"

namespace millrace::tests::test_emulated_image {
namespace {

namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;
using Kind = plan::PortKind;

constexpr std::uint32_t kElements = 64;

class Backend : public testing::Environment {
  void SetUp() override {
    const auto status = runtime::emulator::select_backend(test_cluster());
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

plan::EmulationData good() {
  return image_data(lookup_program(kElements, 1), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}});
}

/// Tries to load an image. Returns the reason for which the card refuses it, or an empty text if it was loaded.
std::string refusal(const Bytes& image) {
  try {
    load(0, image);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void expect_a_good_image_loads() {
  EXPECT_EQ(refusal(container(good())), "");
  EXPECT_EQ(Control(0, load(0, container(good()))).read(abi::kRegAbiVersion), abi::kAbiVersion);
}

void expect_refused(const Bytes& image, const std::string& reason) {
  const auto why = refusal(image);
  EXPECT_NE(why, "") << "an image was loaded that should not: " << reason;
  EXPECT_NE(why.find(reason), std::string::npos) << why;
}

Bytes changed(const std::function<void(XclbinParts&)>& change) {
  XclbinParts parts(container(good()));
  parts.set_uuid(0x33);
  change(parts);
  return parts.assemble();
}

/// Returns an FPGA image whose record (its description of the partitions) or programs `change` has altered, and whose
/// digest is correct again.
Bytes with_data(const std::function<void(plan::EmulationData&)>& change) {
  auto data = good();
  change(data);
  data.record.content_digest = plan::compute_content_digest(data.record);
  XclbinParts parts(container(good()));
  parts.set_uuid(0x34);
  *parts.find(EMULATION_DATA) = plan::encode_emulation_data(data);
  return parts.assemble();
}

template <class T>
void poke(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

TEST(EmulatedImage, WithoutARequiredSectionIsRefused) {
  expect_refused(changed([](auto& parts) { parts.remove(EMULATION_DATA); }), "EMULATION_DATA");
  expect_refused(changed([](auto& parts) { parts.find(EMULATION_DATA)->clear(); }), "EMULATION_DATA");
  expect_a_good_image_loads();
}

TEST(EmulatedImage, WithMemoryThatTheCardLacksIsRefused) {
  const auto bank = offsetof(mem_topology, m_mem_data);
  expect_refused(changed([&](auto& parts) {
                   poke(*parts.find(MEM_TOPOLOGY), bank + offsetof(mem_data, m_size), std::uint64_t{1} << 40);
                 }),
                 "does not fit the card's memory");
  expect_refused(changed([&](auto& parts) {
                   poke(*parts.find(MEM_TOPOLOGY), bank + offsetof(mem_data, m_size), ~std::uint64_t{0});
                 }),
                 "does not fit the card's memory");
  expect_refused(changed([&](auto& parts) {
                   poke(*parts.find(MEM_TOPOLOGY),
                        bank + sizeof(mem_data) + offsetof(mem_data, m_base_address), std::uint64_t{4096});
                 }),
                 "overlaps");
  expect_refused(changed([&](auto& parts) {
                   poke(*parts.find(MEM_TOPOLOGY), bank + offsetof(mem_data, m_base_address),
                        ~std::uint64_t{0} - 4096);
                 }),
                 "wraps around");
  expect_a_good_image_loads();
}

TEST(EmulatedImage, WithComputeUnitsThatTheCardLacksIsRefused) {
  expect_refused(changed([](auto& parts) {
                   std::memcpy(parts.find(IP_LAYOUT)->data() + offsetof(ip_layout, m_ip_data) +
                                   offsetof(ip_data, m_name),
                               "warp_drive:p_in0", 17);
                 }),
                 "warp_drive");
  expect_refused(changed([](auto& parts) {
                   std::memcpy(parts.find(IP_LAYOUT)->data() + offsetof(ip_layout, m_ip_data) +
                                   offsetof(ip_data, m_name),
                               "millrace_ingress:other\0", 24);
                 }),
                 "p_in0");
  expect_a_good_image_loads();
}

TEST(EmulatedImage, WhoseRecordContradictsItsProgramsIsRefused) {
  expect_refused(with_data([](auto& data) { data.record.abi_version = 99; }), "99");
  expect_refused(with_data([](auto& data) { data.record.partitions[0].ports[0].elements = 7; }), "in0");
  expect_refused(with_data([](auto& data) { data.record.partitions[0].ports.pop_back(); }), "");
  expect_refused(with_data([](auto& data) { data.record.partitions[0].ports[0].kind = Kind::kLinkSend; }),
                 "");
  expect_refused(with_data([](auto& data) {
                   data.record.partitions[0].ports[1].compute_unit = "millrace_egress:{nowhere}";
                 }),
                 "nowhere");
  expect_refused(with_data([](auto& data) {
                   data.record.partitions[0].ports[0].kind = Kind::kLinkReceive;
                   data.record.partitions[0].ports[0].compute_unit.clear();
                   data.record.partitions[0].ports[0].link_index = abi::kMaxLinkPorts;
                 }),
                 "");
  expect_a_good_image_loads();
}

TEST(EmulatedImage, ClosingTheLastDeviceObjectEndsTheCardProcessAndUnloadsTheImage) {
  pid_t process = 0;
  {
    xrt::device first(2), second(2);
    const auto image = container(good());
    const auto* header = reinterpret_cast<const axlf*>(image.data());
    first.load_xclbin(header);
    process = card_process("fpga2");
    ASSERT_GT(process, 0);
    first = xrt::device();
    EXPECT_EQ(card_process("fpga2"), process) << "the second object still has it open";
  }
  EXPECT_TRUE(await_end(process));
  xrt::device again(2);
  EXPECT_EQ(card_process("fpga2"), 0);
  EXPECT_THROW(xrt::bo(again, 4096, 0), std::exception) << "no image, no memory banks";
}

TEST(EmulatedImage, WithDamagedBytesNeverCrashesTheCardOrTheHost) {
  const std::uint32_t seed = chosen_seed();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    const auto image = changed([&](auto& parts) {
      auto& data = *parts.find(EMULATION_DATA);
      if (i % 3 == 0) data.resize(random() % data.size());
      for (unsigned n = random() % 8 + 1; n > 0 && !data.empty(); --n)
        data[random() % data.size()] = static_cast<std::byte>(random());
      parts.set_uuid(static_cast<unsigned char>(i));
    });
    const auto why = refusal(image);
    EXPECT_EQ(why.find("process ended"), std::string::npos) << "the card died of image " << i;
  }
  expect_a_good_image_loads();
}

TEST(EmulatedImage, WithDamagedTablesNeverCrashesTheCardOrTheHost) {
  const std::uint32_t seed = chosen_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    const auto kind = i % 2 == 0 ? MEM_TOPOLOGY : IP_LAYOUT;
    const auto image = changed([&](auto& parts) {
      auto& table = *parts.find(kind);
      // Do not change the counts in the first bytes of `table`, because libxrt trusts them without a check.
      for (unsigned n = random() % 8 + 1; n > 0; --n)
        table[8 + random() % (table.size() - 8)] = static_cast<std::byte>(random());
      parts.set_uuid(static_cast<unsigned char>(i));
    });
    const auto why = refusal(image);
    EXPECT_EQ(why.find("process ended"), std::string::npos) << "the card died of image " << i;
  }
  expect_a_good_image_loads();
}

}  // namespace
}  // namespace millrace::tests::test_emulated_image
