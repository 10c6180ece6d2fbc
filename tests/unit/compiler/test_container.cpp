// Reads Millrace's xclbin files with the class xrt::xclbin of the real libxrt_coreutil. No card or XRT shim is needed.
#include <experimental/xrt_xclbin.h>
#include <gtest/gtest.h>
#include <xrt/xclbin.h>

#include <cstring>
#include <map>

#include "compiler/emit/container.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/image_abi.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/vendor_xclbin.hpp"

namespace millrace::compiler::emit::test_container {
namespace {

namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;

plan::Device device() {
  plan::Device made;
  made.name = "ku060";
  made.part = "a<b>&\"c";
  made.family = "xcu";
  made.clock_mhz = 156.25;
  made.memory = {{"DDR[0]", std::uint64_t{8} << 30U, 1}, {"DDR[1]", 5000000, 1}};
  return made;
}

/// Returns the data of an FPGA image with two partitions. The second uses memory bank 1 and sends an output to the host
/// on two channels.
plan::EmulationData image() {
  plan::EmulationData data;
  data.record.abi_version = abi::kAbiVersion;
  data.record.name = "image0";
  data.record.device = "ku060";
  data.record.clock_mhz = 156.25;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto program = tests::chain_program(1, 4, i + 1);
    const auto& in = program.tensors[program.inputs[0]];
    const auto& out = program.tensors[program.outputs[0]];
    plan::ImagePartition partition;
    partition.name = "part" + std::to_string(i);
    partition.region = "all";
    partition.program_digest = plan::program_digest(program);
    partition.ports.push_back({"in0", plan::PortKind::kIngress,
                               compute_unit(abi::kIngressKernel, partition.name, "in0"), 0, i, in.type,
                               in.elements()});
    for (std::size_t copy = 0; copy <= i; ++copy)
      partition.ports.push_back({"out0", plan::PortKind::kEgress,
                                 compute_unit(abi::kEgressKernel, partition.name, "out0", copy), 0, i,
                                 out.type, out.elements()});
    data.record.partitions.push_back(partition);
    data.programs.push_back(program);
  }
  data.record.content_digest = plan::compute_content_digest(data.record);
  return data;
}

class XclbinContainer : public testing::Test {
 protected:
  XclbinContainer() : bytes_(write_container(image(), device()).value()) {
    EXPECT_TRUE(
        write_file_atomically(directory_.path() / "image0.xclbin", std::span<const std::byte>(bytes_)).ok());
    xclbin_ = xrt::xclbin((directory_.path() / "image0.xclbin").string());
  }

  TemporaryDirectory directory_{"millrace-container"};
  std::vector<std::byte> bytes_;
  xrt::xclbin xclbin_;
};

TEST_F(XclbinContainer, XrtReadsUuidAndPlatform) {
  EXPECT_EQ(xclbin_.get_uuid().to_string(), plan::uuid_from_digest(image().record.content_digest));
  EXPECT_EQ(xclbin_.get_xsa_name(), "millrace_ku060");
  EXPECT_EQ(xclbin_.get_target_type(), xrt::xclbin::target_type::hw);
}

TEST_F(XclbinContainer, XrtReadsEveryKernelAndComputeUnit) {
  std::map<std::string, std::vector<std::string>> units;
  for (const auto& kernel : xclbin_.get_kernels())
    for (const auto& unit : kernel.get_cus()) units[kernel.get_name()].push_back(unit.get_name());
  const std::map<std::string, std::vector<std::string>> expected = {
      {"millrace_ingress", {"millrace_ingress:part0_in0", "millrace_ingress:part1_in0"}},
      {"millrace_egress",
       {"millrace_egress:part0_out0", "millrace_egress:part1_out0", "millrace_egress:part1_out0_2"}},
      {"millrace_supervisor", {"millrace_supervisor:supervisor"}},
      {"millrace_control", {"millrace_control:control"}}};
  EXPECT_EQ(units, expected);
}

TEST_F(XclbinContainer, XrtReadsEveryArgumentAtItsOffset) {
  using Row = std::tuple<std::string, std::uint64_t, std::uint64_t>;
  for (const char* name : {"millrace_ingress", "millrace_egress"}) {
    std::vector<Row> rows;
    for (const auto& argument : xclbin_.get_kernel(name).get_args())
      rows.emplace_back(argument.get_name(), argument.get_offset(), argument.get_size());
    EXPECT_EQ(rows, (std::vector<Row>{
                        {"buffer", 0x10, 8}, {"bytes", 0x1c, 4}, {"epoch", 0x24, 4}, {"sequence", 0x2c, 8}}))
        << name;
  }
  const auto supervisor = xclbin_.get_kernel("millrace_supervisor").get_args();
  ASSERT_EQ(supervisor.size(), 1U);
  EXPECT_EQ(supervisor[0].get_offset(), 0x10U);
  for (const auto& argument : xclbin_.get_kernel("millrace_control").get_args())
    EXPECT_TRUE(argument.get_offset() == abi::kRegEpoch || argument.get_offset() == abi::kRegSupervisorStop);
}

TEST_F(XclbinContainer, XrtReadsTheMemoryBankOfEveryBuffer) {
  for (const auto& unit : xclbin_.get_kernel("millrace_ingress").get_cus()) {
    const auto mems = unit.get_args()[0].get_mems();
    ASSERT_EQ(mems.size(), 1U) << unit.get_name();
    EXPECT_EQ(mems[0].get_tag(), unit.get_name() == "millrace_ingress:part0_in0" ? "DDR[0]" : "DDR[1]");
  }
}

TEST_F(XclbinContainer, XrtReadsEveryMemory) {
  const auto mems = xclbin_.get_mems();
  ASSERT_EQ(mems.size(), 2U);
  EXPECT_EQ(mems[0].get_tag(), "DDR[0]");
  EXPECT_EQ(mems[0].get_size_kb(), 8U << 20U);
  EXPECT_EQ(mems[0].get_base_address(), 0U);
  EXPECT_EQ(mems[1].get_tag(), "DDR[1]");
  EXPECT_EQ(mems[1].get_size_kb(), 4882U);
  EXPECT_EQ(mems[1].get_base_address(), std::uint64_t{8} << 30U);
  EXPECT_TRUE(mems[0].get_used());
}

TEST_F(XclbinContainer, XrtReadsTheControlProtocolOfEveryUnit) {
  for (const auto& ip : xclbin_.get_ips()) {
    const bool control = ip.get_name() == "millrace_control:control";
    EXPECT_EQ(ip.get_control_type(),
              control ? xrt::xclbin::ip::control_type::none : xrt::xclbin::ip::control_type::chain)
        << ip.get_name();
    EXPECT_EQ(ip.get_size(), 0x10000U) << ip.get_name();
  }
}

TEST_F(XclbinContainer, ImageRecordAndProgramsReadBackUnchanged) {
  const auto view = plan::parse_xclbin(bytes_);
  ASSERT_TRUE(view.ok()) << view.error().message();
  EXPECT_EQ(view->uuid, plan::uuid_from_digest(image().record.content_digest));
  const auto* user = view->find(plan::kSectionUserMetadata);
  ASSERT_NE(user, nullptr);
  const auto record =
      plan::parse_image_record({reinterpret_cast<const char*>(user->bytes.data()), user->bytes.size()});
  ASSERT_TRUE(record.ok()) << record.error().message();
  EXPECT_EQ(*record, image().record);
  const auto* emulation = view->find(plan::kSectionEmulationData);
  ASSERT_NE(emulation, nullptr);
  const auto data = plan::decode_emulation_data(emulation->bytes);
  ASSERT_TRUE(data.ok()) << data.error().message();
  EXPECT_EQ(data->programs, image().programs);
}

TEST_F(XclbinContainer, PackingTheSameDataGivesTheSameBytes) {
  EXPECT_EQ(bytes_, write_container(image(), device()).value());
}

TEST_F(XclbinContainer, AnyAlteredByteIsRefused) {
  for (std::size_t i = 0; i < bytes_.size(); i += 7) {
    bytes_[i] ^= std::byte{0x10};
    EXPECT_FALSE(plan::parse_xclbin(bytes_).ok()) << "byte " << i;
    bytes_[i] ^= std::byte{0x10};
  }
}

TEST_F(XclbinContainer, KeepsTheVendorsBitstream) {
  const std::vector<std::byte> bits(1000, std::byte{0xa5});
  const auto bytes = write_container(image(), device(), bits);
  ASSERT_TRUE(bytes.ok());
  const auto view = plan::parse_xclbin(*bytes);
  ASSERT_TRUE(view.ok());
  const auto kept = view->find(0)->bytes;
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), bits.begin(), bits.end()));
}

TEST(ComputeUnit, LongNamesAreShortenedAndStayDistinct) {
  EXPECT_EQ(compute_unit("millrace_ingress", "part0", "in0"), "millrace_ingress:{part0_in0}");
  const std::string a = compute_unit("millrace_ingress", std::string(60, 'p'), "in0");
  const std::string b = compute_unit("millrace_ingress", std::string(60, 'p'), "in1");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.size() - 2, 63U);  // IP_LAYOUT omits the two braces
  EXPECT_EQ(a, compute_unit("millrace_ingress", std::string(60, 'p'), "in0"));
}

TEST(XclbinContainerLimits, RefusesMoreThan128ComputeUnits) {
  auto data = image();
  auto& ports = data.record.partitions[1].ports;
  for (std::size_t copy = 2; copy < 140; ++copy) {
    ports.push_back(ports.back());
    ports.back().compute_unit = compute_unit(abi::kEgressKernel, "part1", "out0", copy);
  }
  const auto bytes = write_container(data, device());
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(bytes.error().message().find("128"), std::string::npos);
}

/// Returns the data of an FPGA image for the vendor's tools, which has one partition with an ingress and an egress.
plan::EmulationData single() {
  plan::EmulationData data = image();
  data.record.partitions.resize(1);
  data.programs.resize(1);
  data.record.content_digest = plan::compute_content_digest(data.record);
  return data;
}

using tests::Vendor;

TEST(Pack, KeepsTheVendorsSectionsAndAddsTheImage) {
  const auto packed = pack_container(Vendor().bytes(), single());
  ASSERT_TRUE(packed.ok()) << packed.error().message();
  const auto view = plan::parse_xclbin(packed->bytes);
  ASSERT_TRUE(view.ok()) << view.error().message();
  EXPECT_EQ(view->platform, "xilinx_u280_gen3x16_xdma_1_202211_1");
  const auto text = [&](std::uint32_t kind) {
    const auto* section = view->find(kind);
    return section == nullptr
               ? std::string()
               : std::string(reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size());
  };
  EXPECT_EQ(text(BITSTREAM), "the vendor's bits");
  EXPECT_EQ(text(PARTITION_METADATA), "the shell's own");
  EXPECT_EQ(text(USER_METADATA), plan::to_json(packed->record));
  const auto data = plan::decode_emulation_data(view->find(EMULATION_DATA)->bytes);
  ASSERT_TRUE(data.ok()) << data.error().message();
  EXPECT_EQ(data->record, packed->record);
  EXPECT_EQ(data->programs.size(), 1U);
}

/// Packs a vendor's file and opens the result with XRT.
xrt::xclbin packed_by_xrt(const Vendor& vendor, const plan::EmulationData& data) {
  const auto packed = pack_container(vendor.bytes(), data);
  EXPECT_TRUE(packed.ok()) << packed.error().message();
  const TemporaryDirectory directory("millrace-pack");
  const auto file = directory.path() / "image0.xclbin";
  EXPECT_TRUE(write_file_atomically(file, std::span<const std::byte>(packed->bytes)).ok());
  return xrt::xclbin(file.string());
}

/// Maps each compute unit with a buffer to the tag of the buffer's memory.
std::map<std::string, std::string> memory_of_units(const xrt::xclbin& xclbin) {
  std::map<std::string, std::string> tags;
  for (const auto& kernel : xclbin.get_kernels())
    for (const auto& unit : kernel.get_cus())
      for (const auto& argument : unit.get_args())
        for (const auto& memory : argument.get_mems()) tags[unit.get_name()] = memory.get_tag();
  return tags;
}

TEST(Pack, XrtFindsEachComputeUnitAtItsAddressInTheVendorsKernel) {
  const xrt::xclbin xclbin = packed_by_xrt(Vendor(), single());
  std::map<std::string, std::uint64_t> base;
  for (const auto& ip : xclbin.get_ips())
    if (ip.get_name().starts_with("millrace_")) base[ip.get_name()] = ip.get_base_address();
  EXPECT_EQ(base, (std::map<std::string, std::uint64_t>{{"millrace_control:control", 0x1c00000},
                                                        {"millrace_supervisor:supervisor", 0x1c01000},
                                                        {"millrace_ingress:part0_in0", 0x1c02000},
                                                        {"millrace_egress:part0_out0", 0x1c03000}}));
  EXPECT_EQ(memory_of_units(xclbin),
            (std::map<std::string, std::string>{{"millrace_supervisor:supervisor", "DDR[1]"},
                                                {"millrace_ingress:part0_in0", "DDR[1]"},
                                                {"millrace_egress:part0_out0", "DDR[1]"}}));
}

/// With streamed weights, the kernel has an argument for each reader of weights, but no register window. So an argument's
/// number is not the number of a window.
TEST(Pack, FindsKernelArgumentsByNameEvenIfWeightReadersAreListedBetweenThem) {
  plan::EmulationData data = single();
  data.record.partitions[0].parameters_unit = std::string(abi::kParametersKernel) + ":{part0}";
  Vendor vendor;
  vendor.arguments = {"supervisor", "parameters", "weights0", "weights1", "in0", "out0"};
  vendor.connections = {{0, 1, 1}, {1, 1, 1}, {2, 1, 0}, {3, 1, 0}, {4, 1, 1}, {5, 1, 1}};
  const std::map<std::string, std::string> expected = {{"millrace_supervisor:supervisor", "DDR[1]"},
                                                       {"millrace_parameters:part0", "DDR[1]"},
                                                       {"millrace_ingress:part0_in0", "DDR[1]"},
                                                       {"millrace_egress:part0_out0", "DDR[1]"}};
  EXPECT_EQ(memory_of_units(packed_by_xrt(vendor, data)), expected);
  vendor.arguments = {"weights1", "weights0", "out0", "in0", "parameters", "supervisor"};
  vendor.connections = {{0, 1, 0}, {1, 1, 0}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1}, {5, 1, 1}};
  EXPECT_EQ(memory_of_units(packed_by_xrt(vendor, data)), expected);
}

TEST(Pack, KeepsTheVendorsMemoryControllersButNoOtherKernels) {
  const auto packed = pack_container(Vendor().bytes(), single());
  ASSERT_TRUE(packed.ok()) << packed.error().message();
  const auto view = plan::parse_xclbin(packed->bytes);
  ASSERT_TRUE(view.ok());
  const auto* section = view->find(IP_LAYOUT);
  std::int32_t count = 0;
  std::memcpy(&count, section->bytes.data(), sizeof count);
  ASSERT_EQ(count, 5);  // four units of ours, then the controller
  std::vector<ip_data> rows(5);
  std::memcpy(rows.data(), section->bytes.data() + offsetof(ip_layout, m_ip_data), 5 * sizeof(ip_data));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(rows[i].m_type, IP_KERNEL) << i;
  EXPECT_EQ(rows[4].m_type, IP_DDR4_CONTROLLER);
  EXPECT_STREQ(reinterpret_cast<const char*>(rows[4].m_name), "slr1/memory_subsystem");
  EXPECT_EQ(rows[4].m_base_address, 0x300000U);
}

TEST(Pack, EachPackedImageHasItsOwnUuid) {
  const auto uuid = [](const Vendor& vendor, const plan::EmulationData& data) {
    const auto packed = pack_container(vendor.bytes(), data);
    return packed.ok() ? plan::parse_xclbin(packed->bytes)->uuid : packed.error().message();
  };
  const std::string first = uuid(Vendor(), single());
  EXPECT_EQ(first.size(), 36U) << first;
  EXPECT_NE(first, "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a") << "the vendor's";
  EXPECT_EQ(first[14], '8');
  EXPECT_EQ(uuid(Vendor(), single()), first) << "the same content";
  Vendor other;
  other.connections.back().memory = 0;
  EXPECT_NE(uuid(other, single()), first) << "the same bits with another buffer";
  plan::EmulationData renamed = single();
  renamed.record.partitions[0].ports[0].compute_unit = std::string(abi::kIngressKernel) + ":{part0_input}";
  EXPECT_NE(uuid(Vendor(), renamed), first) << "the same bits with another unit";
}

TEST(Pack, StoresTheClockThatTheVendorsToolsAchieved) {
  plan::EmulationData data = single();
  data.record.clock_mhz = 300;
  const auto packed = pack_container(Vendor().bytes(), data, {{1000, 5000}});
  ASSERT_TRUE(packed.ok()) << packed.error().message();
  EXPECT_EQ(packed->record.clock_mhz, 250);
  EXPECT_NE(packed->record.content_digest, data.record.content_digest);
  const auto view = plan::parse_xclbin(packed->bytes);
  ASSERT_TRUE(view.ok());
  const auto* record = view->find(USER_METADATA);
  const auto read =
      plan::parse_image_record({reinterpret_cast<const char*>(record->bytes.data()), record->bytes.size()});
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->clock_mhz, 250);
  const auto paces = plan::decode_paces(view->find(EMULATION_DATA)->bytes);
  ASSERT_TRUE(paces.ok());
  EXPECT_EQ(*paces, (std::vector<plan::Pace>{{1200, 6000}}));
  // The vendor's table has whole MHz.
  Vendor rounded;
  rounded.mhz = 156;
  EXPECT_EQ(pack_container(rounded.bytes(), single())->record.clock_mhz, 156.25);
  rounded.mhz = 155;
  EXPECT_EQ(pack_container(rounded.bytes(), single())->record.clock_mhz, 155);
}

TEST(Pack, RefusesAnXclbinOfAnotherKernel) {
  const auto message = [](const Vendor& vendor) {
    const auto packed = pack_container(vendor.bytes(), single());
    return packed.ok() ? std::string("accepted") : packed.error().message();
  };
  Vendor vendor;
  vendor.unit = "millrace_image1:image1";
  EXPECT_NE(message(vendor).find("no compute unit 'millrace_image0:image0'"), std::string::npos);
  vendor = {};
  vendor.bits.clear();
  EXPECT_NE(message(vendor).find("no bitstream"), std::string::npos);
  vendor = {};
  vendor.mhz = 0;
  EXPECT_NE(message(vendor).find("CLOCK_FREQ_TOPOLOGY of the xclbin is missing"), std::string::npos)
      << message(vendor);
  vendor = {};
  vendor.is_signed = true;
  EXPECT_NE(message(vendor).find("xclbin is signed"), std::string::npos) << message(vendor);
  vendor = {};
  vendor.arguments.back() = "out1";
  EXPECT_NE(message(vendor).find("no argument 'out0' of kernel 'millrace_image0'"), std::string::npos)
      << message(vendor);
  vendor = {};
  vendor.kernel = "millrace_image7";  // argument in0 of another kernel must not be taken for ours
  EXPECT_NE(message(vendor).find("no argument 'in0' of kernel 'millrace_image0'"), std::string::npos)
      << message(vendor);
  vendor = {};
  vendor.connections.pop_back();
  EXPECT_NE(
      message(vendor).find("no memory to argument 2 ('out0'), the buffer of millrace_egress:part0_out0"),
      std::string::npos)
      << message(vendor);
  for (const std::int32_t none : {-1, 2, 1 << 30}) {
    vendor = {};
    vendor.connections.back().memory = none;
    EXPECT_NE(message(vendor).find("memory " + std::to_string(none) + ", which it does not list"),
              std::string::npos)
        << message(vendor);
  }
  EXPECT_FALSE(pack_container({}, single()).ok());
  EXPECT_FALSE(pack_container(Vendor().bytes(), image()).ok());
  std::vector<std::byte> cut = Vendor().bytes();
  for (std::size_t size = 0; size < cut.size(); size += 97) {
    (void)pack_container(std::span(cut).first(size),
                         single());  // sanitizers would report an overread
  }
}

}  // namespace
}  // namespace millrace::compiler::emit::test_container
