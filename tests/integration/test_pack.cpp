// Tests `millrace pack`, which puts an xclbin built by the vendor's tools into a deployment. If `pack` fails,
// the deployment must stay unchanged.

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/vendor_xclbin.hpp"

namespace millrace::tests::test_pack {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = tests::source_dir();

class Pack : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path model = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
    const Outcome compiled =
        run_program({millrace_binary(), "compile", model, "--cluster",
                     kSource / "configs/clusters/one-ku060.yaml", "-o", deployment_, "--quiet"});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    before_ = *read_text_file(deployment_ / "CHECKSUMS");
    write(Vendor().bytes());
  }

  void write(const std::vector<std::byte>& bytes) {
    ASSERT_TRUE(write_file_atomically(xclbin_, std::span<const std::byte>(bytes)).ok());
  }

  Outcome pack(std::vector<std::string> more = {}, const std::string& image = "image0") {
    std::vector<std::string> command{millrace_binary(), "pack", deployment_, "--image", image,
                                     "--xclbin",        xclbin_};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }

  /// Returns the frame rate that `pack --json` printed, and expects that it printed this clock.
  static double clocked_rate(const std::string& json, double clock_mhz) {
    const auto printed = boost::json::parse(json).as_object();
    EXPECT_EQ(printed.at("clock_mhz").to_number<double>(), clock_mhz);
    return printed.at("clocked_frames_per_second").to_number<double>();
  }

  /// Expects exit code 2, `words` in the error, and an unchanged deployment.
  void expect_refused(const Outcome& outcome, const std::vector<std::string>& words) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    EXPECT_TRUE(outcome.out.empty()) << outcome.out;
    for (const auto& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(*read_text_file(deployment_ / "CHECKSUMS"), before_);
    EXPECT_EQ(run_program({millrace_binary(), "inspect", deployment_}).exit_code, 0);
  }

  TemporaryDirectory dir_{"millrace-pack"};
  fs::path deployment_ = dir_.path() / "lenet5", xclbin_ = dir_.path() / "linked.xclbin";
  std::string before_;
};

TEST_F(Pack, APackedDeploymentIsValidAndStillRunsOnEmulatedCards) {
  const Outcome packed = pack();
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_EQ(packed.out.find("5a5a5a5a-5a5a"), std::string::npos) << "the vendor's uuid: " << packed.out;
  EXPECT_NE(packed.out.find("clock 250 MHz"), std::string::npos) << packed.out;
  EXPECT_NE(*read_text_file(deployment_ / "CHECKSUMS"), before_);
  EXPECT_EQ(run_program({millrace_binary(), "inspect", deployment_}).exit_code, 0);
  const Outcome verified =
      run_program({millrace_binary(), "verify", deployment_, "--frames", "2", "--quiet"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

TEST_F(Pack, PackingIntoAnotherDirectoryLeavesTheOriginalUnchanged) {
  const fs::path other = dir_.path() / "other";
  ASSERT_EQ(pack({"-o", other}).exit_code, 0);
  EXPECT_EQ(*read_text_file(deployment_ / "CHECKSUMS"), before_);
  EXPECT_EQ(run_program({millrace_binary(), "inspect", other}).exit_code, 0);
}

TEST_F(Pack, RefusesDamagedXclbinFilesAndThoseOfAnotherImage) {
  const std::vector<std::byte> whole = Vendor().bytes();
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, whole.size() / 2, whole.size() - 1}) {
    write({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    expect_refused(pack(), {"linked.xclbin", "xclbin"});
  }
  Vendor vendor;
  vendor.unit = "millrace_image7:image7";
  write(vendor.bytes());
  expect_refused(pack(), {"linked.xclbin", "no compute unit 'millrace_image0:image0'"});
  fs::remove(xclbin_);
  expect_refused(pack(), {"linked.xclbin", "No such file"});
  fs::create_directory(xclbin_);
  expect_refused(pack(), {"linked.xclbin", "is a directory"});
}

/// The planned clock of a KU060 is 156.25 MHz, so at 125 MHz the deployment has 0.8 times its rate.
TEST_F(Pack, RefusesAClockThatMakesTheDeploymentSlowerUnlessToldToAccept) {
  Vendor vendor;
  vendor.mhz = 156;
  write(vendor.bytes());
  const Outcome rounded = pack({"--json", "-o", dir_.path() / "rounded"});
  ASSERT_EQ(rounded.exit_code, 0) << rounded.err;
  const double planned = clocked_rate(rounded.out, 156.25);

  vendor.mhz = 125;
  write(vendor.bytes());
  expect_refused(pack(), {"linked.xclbin", "a clock of 125 MHz, and the plan has 156.25",
                          "the pipeline of partition 'part0'", "Reach 156.25 MHz", "--accept-slower"});
  const Outcome accepted = pack({"--json", "--accept-slower"});
  ASSERT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_NEAR(clocked_rate(accepted.out, 125), 0.8 * planned, 1e-6 * planned);

  const Outcome again = pack({"--json"});
  EXPECT_EQ(again.exit_code, 0) << "the plan has this clock now: " << again.err;
  const Outcome inspected = run_program({millrace_binary(), "inspect", deployment_ / "images/image0.xclbin"});
  EXPECT_NE(inspected.out.find("125 MHz"), std::string::npos) << inspected.out;
}

TEST_F(Pack, RefusesSignedXclbinFilesAndThoseWithoutAClock) {
  Vendor vendor;
  vendor.is_signed = true;
  write(vendor.bytes());
  expect_refused(pack(), {"linked.xclbin", "xclbin is signed", "pack an unsigned xclbin"});
  vendor.is_signed = false;
  vendor.mhz = 0;
  write(vendor.bytes());
  expect_refused(pack(), {"linked.xclbin", "CLOCK_FREQ_TOPOLOGY", "link the image for hardware again"});
}

TEST_F(Pack, RefusesAnUnknownImageAndListsTheImages) {
  expect_refused(pack({}, "image1"), {"'image1'", "it has image0"});
  expect_refused(pack({}, ""), {"--image", "empty"});
}

TEST_F(Pack, RefusesAnOutputInsideTheDeploymentOrOverOtherFiles) {
  expect_refused(pack({"-o", deployment_ / "new"}), {"lies inside the deployment", "another directory"});
  fs::create_directory(dir_.path() / "mine");
  ASSERT_TRUE(write_file_atomically(dir_.path() / "mine" / "thesis.txt", "precious").ok());
  expect_refused(pack({"-o", dir_.path() / "mine"}), {"not part of a deployment", "give a new directory"});
  EXPECT_EQ(*read_text_file(dir_.path() / "mine" / "thesis.txt"), "precious");
  expect_refused(pack({"-o", xclbin_}), {"not a directory"});
}

TEST_F(Pack, RefusesADamagedDeployment) {
  const fs::path image = deployment_ / "images/image0.xclbin";
  std::string bytes = *read_text_file(image);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(write_file_atomically(image, bytes).ok());
  const Outcome outcome = pack();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("image0.xclbin"), std::string::npos) << outcome.err;
  EXPECT_EQ(*read_text_file(deployment_ / "CHECKSUMS"), before_);
}

}  // namespace
}  // namespace millrace::tests::test_pack
