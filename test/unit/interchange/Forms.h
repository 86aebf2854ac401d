// Programs of other systems, proved.
#pragma once

#include "dialect/model/Check.h"
#include "frontend/interchange/Foreign.h"

namespace ccl::interchange {

/// Of each form that the program is for: with separate memory, then in place.
inline std::vector<model::ProgramReport> proveForms(const Foreign &foreign) {
  std::vector<model::ProgramReport> reports;
  for (bool inPlace : {false, true}) {
    if (!(inPlace ? foreign.inPlace : foreign.disjoint))
      continue;
    model::ProgramCheckOptions options;
    options.inPlace = inPlace;
    reports.push_back(model::check(foreign.program, foreign.contract, options));
  }
  return reports;
}

} // namespace ccl::interchange
