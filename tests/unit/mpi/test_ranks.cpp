// Tests the checks of an MPI job's ranks, and the bytes of messages. Uses no MPI.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/mpi/ranks.hpp"
#include "runtime/mpi/wire.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::mpi::test_ranks {
namespace {

plan::Cluster cluster_of(const std::vector<std::string>& hosts) {
  plan::Cluster cluster;
  cluster.name = "c";
  for (const auto& host : hosts) cluster.hosts.push_back({host, true});
  return cluster;
}

Identity rank_on(const std::string& host) {
  return {host, "1.0", "file", {"net:digest"}, ""};
}

std::string refusal(const std::vector<Identity>& ranks, const plan::Cluster& cluster) {
  const Status status = check_ranks(ranks, cluster);
  if (status.ok()) return "accepted";
  EXPECT_EQ(exit_code(status.error().code()), 2);
  return status.error().message();
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Ranks, AreAcceptedInAnyOrderIfEachHostHasOne) {
  EXPECT_TRUE(check_ranks({rank_on("b"), rank_on("a")}, cluster_of({"a", "b"})).ok());
}

TEST(Ranks, ErrorNamesTheHostWithoutARank) {
  const auto text = refusal({rank_on("a"), rank_on("c")}, cluster_of({"a", "b", "c"}));
  expect_part(text, "lists 3 hosts, but only 2 ranks were started: no rank runs on b");
  expect_part(text, "mpirun -n 3");
}

TEST(Ranks, ErrorNamesTwoRanksOnOneHost) {
  const auto text = refusal({rank_on("a"), rank_on("b"), rank_on("a")}, cluster_of({"a", "b"}));
  expect_part(
      text,
      "3 ranks were started, but cluster 'c' lists 2 hosts (a, b): rank 0 and rank 2 both run on host 'a'");
  expect_part(text, "--host-name");
}

TEST(Ranks, ErrorNamesTwoRanksOnOneHostThoughTheNumberOfRanksFits) {
  const auto text = refusal({rank_on("a"), rank_on("a")}, cluster_of({"a", "b"}));
  expect_part(text, "rank 0 and rank 1 both run on host 'a'");
  EXPECT_EQ(text.find("were started"), std::string::npos) << text;
}

TEST(Ranks, ErrorNamesAHostThatTheClusterDoesNotList) {
  expect_part(refusal({rank_on("a"), rank_on("z")}, cluster_of({"a", "b"})),
              "rank 1 runs on host 'z', which cluster 'c' does not list");
}

TEST(Ranks, ErrorSaysInWhatTwoRanksDiffer) {
  const plan::Cluster cluster = cluster_of({"a", "b"});
  Identity other = rank_on("b");
  other.version = "1.1";
  expect_part(refusal({rank_on("a"), other}, cluster),
              "rank 0 and rank 1 have different versions of Millrace: 1.0 and 1.1");
  other = rank_on("b");
  other.deployments = {"net:other"};
  expect_part(refusal({rank_on("a"), other}, cluster),
              "different deployments (models with their digests): net:digest and net:other");
  other = rank_on("b");
  other.cluster = "changed";
  expect_part(refusal({rank_on("a"), other}, cluster), "copy one file to all hosts");
}

TEST(MpiMessage, ReaderReturnsTheValuesThatTheWriterWrote) {
  const Bytes bytes = Writer().put(std::uint16_t{7}).put_text("card").put(std::int64_t{-1}).take();
  Reader in(bytes);
  EXPECT_EQ(in.get<std::uint16_t>(), 7);
  EXPECT_EQ(in.get_text(), "card");
  EXPECT_EQ(in.get<std::int64_t>(), -1);
  EXPECT_FALSE(in.failed());
}

TEST(MpiMessage, ReaderReadsNothingBeyondTheEndOfTheMessage) {
  const Bytes bytes = Writer().put(std::uint64_t{100}).put(std::uint8_t{1}).take();
  Reader text(bytes);
  EXPECT_EQ(text.get_text(), "");
  EXPECT_TRUE(text.failed());
  Reader number(std::span<const std::byte>(bytes).first(3));
  EXPECT_EQ(number.get<std::uint32_t>(), 0U);
  EXPECT_TRUE(number.failed());
}

}  // namespace
}  // namespace millrace::runtime::mpi::test_ranks
