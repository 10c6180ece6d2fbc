// Compiles Boost.JSON into the shared library, so that its users do not need Boost.
#include <boost/json/src.hpp>
