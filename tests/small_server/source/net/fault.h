// Misbehaviour on request, for tests of whatever drives this server.
#pragma once

#include "core/prelude.h"

namespace small {

// What ``SMALLSERVER_FAULT`` asks for. ``SMALLSERVER_FAULT_IN`` limits it to executables with that text in their path.
enum class Fault { none, no_start, hang, crash, no_stop, wrong };

// Raises Error for a name that is not known.
Fault fault_from_environment();

// A server with the fault ``crash`` dies at this many statements: a fill survives, a load does not.
constexpr uint64_t kCrashAtQueries = 2000;

}  // namespace small
