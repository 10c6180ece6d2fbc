#pragma once
#include "xrt_api.hpp"
