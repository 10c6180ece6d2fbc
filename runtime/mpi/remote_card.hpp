// A card of another host, as rank 0's pipelines use it: the same interface as a local card. Calls become requests to
// the agent of the card's rank; frames travel in streams.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/mpi/session.hpp"

namespace millrace::runtime::mpi {

class RemoteCard;

/// All cards of other hosts, on rank 0. Any thread may call its functions.
class RemoteCards {
 public:
  /// The session must outlive this object, which must outlive its cards.
  explicit RemoteCards(Session& session) : session_(session) {}

  /// Opens the card on a rank. Returns the error of the rank's agent, which drives the card, or kUnavailable
  /// if the rank is lost.
  Result<std::unique_ptr<card::Card>> open(int rank, const std::string& name);
  bool is_open(const std::string& name) const;
  /// Returns the uuid of the image on the card, or "" if the rank does not tell.
  std::string image_uuid(int rank, const std::string& name);

  // Handlers of the session.
  void event(Reader event);
  void lost(int rank);

 private:
  friend class RemoteCard;
  void closed(const RemoteCard& card);

  Session& session_;
  mutable std::mutex mutex_;
  std::map<std::string, RemoteCard*> cards_;  // the open cards, by name; protected by mutex_
};

}  // namespace millrace::runtime::mpi
