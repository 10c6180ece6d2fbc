// Boost.JSON itself, for the shared library: who links that need not have Boost.
#include <boost/json/src.hpp>
