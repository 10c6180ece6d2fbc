#include <gtest/gtest.h>

#include "runtime/base/digest.hpp"
#include "runtime/base/result.hpp"

namespace millrace::test_digest {

// The example is from FIPS 180-2, appendix B.1.
TEST(Digest, Sha256OfAbcEqualsTheExampleOfTheStandard) {
  EXPECT_EQ(sha256_hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, DigestOfPiecesEqualsTheDigestOfTheWhole) {
  Sha256 pieces;
  pieces.update("a").update("").update("bc");
  EXPECT_EQ(to_hex(pieces.finish()), sha256_hex(std::string_view("abc")));
}

TEST(Result, ContextPrecedesTheMessageAndKeepsTheErrorCode) {
  const Error error = Error(ErrorCode::kNotFound, "no such file").within("cluster a.yaml");
  EXPECT_EQ(error.message(), "cluster a.yaml: no such file");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
}

TEST(Result, ExitCodesDistinguishFailuresBadInputBadEnvironmentAndBugs) {
  EXPECT_EQ(exit_code(ErrorCode::kDoesNotFit), 1);
  EXPECT_EQ(exit_code(ErrorCode::kInvalidInput), 2);
  EXPECT_EQ(exit_code(ErrorCode::kCorrupt), 2);
  EXPECT_EQ(exit_code(ErrorCode::kEnvironment), 3);
  EXPECT_EQ(exit_code(ErrorCode::kInternal), 70);
}

}  // namespace millrace::test_digest
