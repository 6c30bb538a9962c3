#include "proto/rpc/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("address \"", text, "\": ", why, ", must be host:port"));
  };
  Address address;
  absl::string_view port;
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos || close + 1 >= text.size() || text[close + 1] != ':') {
      return bad("no \"]:\" after the host");
    }
    address.host = std::string(text.substr(1, close - 1));
    port = text.substr(close + 2);
  } else {
    const size_t colon = text.rfind(':');
    if (colon == absl::string_view::npos) return bad("no port");
    address.host = std::string(text.substr(0, colon));
    if (address.host.find(':') != std::string::npos) return bad("IPv6 needs brackets");
    port = text.substr(colon + 1);
  }
  uint32_t number = 0;
  if (port.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(port[0])) || !absl::SimpleAtoi(port, &number) ||
      number > 65535) {
    return bad(absl::StrCat("port \"", port, "\" is not a number from 0 to 65535"));
  }
  address.port = static_cast<uint16_t>(number);
  return address;
}

std::string FormatAddress(const Address& address) {
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? absl::StrCat("[", address.host, "]:", address.port) : absl::StrCat(address.host, ":", address.port);
}

bool IsLoopback(absl::string_view host_port) {
  const absl::StatusOr<Address> address = ParseAddress(host_port);
  if (!address.ok()) return false;
  if (absl::AsciiStrToLower(address->host) == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, address->host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, address->host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::Status CheckBindAllowed(absl::string_view host_port, bool insecure) {
  SHOAL_RETURN_IF_ERROR(ParseAddress(host_port).status());
  if (insecure || IsLoopback(host_port)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("address \"", host_port,
                   "\" can be reached from other machines, and connections are not encrypted or authenticated yet (TLS "
                   "comes with a later version); bind 127.0.0.1, or use --insecure to accept that"));
}

absl::Status ProbeBind(const Address& address) {
  const auto failed = [&](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat("cannot bind ", FormatAddress(address), ": ", why));
  };
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return failed(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  // A name may stand for several addresses; gRPC is content with one that works.
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
    const int fd = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      reason = errno;
      continue;
    }
    const int on = 1;
    // As gRPC does: a port in TIME_WAIT is free.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool bound = bind(fd, candidate->ai_addr, candidate->ai_addrlen) == 0 && listen(fd, 1) == 0;
    if (!bound) reason = errno;
    close(fd);
    if (bound) return absl::OkStatus();
  }
  return failed(std::strerror(reason));
}

}  // namespace shoal
