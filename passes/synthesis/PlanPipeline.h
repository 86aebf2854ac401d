//===- PlanPipeline.h - From a collective to the best algorithm -------------------===//
#pragma once

namespace ccl {

/// `ccl-plan`: decompose, synthesize, pipeline, select.
void registerPlanPipeline();

} // namespace ccl
