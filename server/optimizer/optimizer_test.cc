// Numbers in comments are worked out by hand from the formula at the top of each variant's file.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "server/optimizer/schedule.h"
#include "server/optimizer/update_rule.h"

namespace shoal {
namespace {

struct Row {
  std::vector<float> weights, state;
};

std::unique_ptr<UpdateRule> Rule(const std::function<void(Optimizer*)>& fill) {
  Optimizer config;
  fill(&config);
  return UpdateRule::Create(config).value();
}

Row Fresh(const UpdateRule& rule, std::vector<float> weights) {
  Row row{std::move(weights), {}};
  row.state.resize(rule.RowStateSize(row.weights.size()));
  rule.InitRow(row.state.data(), row.weights.size());
  return row;
}

void Step(const UpdateRule& rule, Row* row, std::vector<float> gradient, float factor = 1) {
  float* const weights = row->weights.data();
  float* const state = row->state.data();
  rule.UpdateRows(&weights, &state, gradient.data(), 1, gradient.size(), factor);
}

void CheckClose(const std::vector<float>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  // A few roundings of f32.
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-6).margin(1e-7));
}

TEST_CASE("Sgd: w -= rate * factor * g", "[optimizer][unit]") {
  const auto rule = Rule([](Optimizer* o) { o->mutable_sgd()->set_learning_rate(0.5f); });
  Row row = Fresh(*rule, {1, 2});
  Step(*rule, &row, {2, -4}, 0.5f);
  CHECK(row.weights == std::vector<float>{0.5f, 3});
  CHECK(row.state.empty());
}

TEST_CASE("Momentum: heavy ball and Nesterov", "[optimizer][unit]") {
  for (const bool nesterov : {false, true}) {
    const auto rule = Rule([&](Optimizer* o) {
      o->mutable_momentum()->set_learning_rate(0.1f);
      o->mutable_momentum()->set_momentum(0.5f);
      o->mutable_momentum()->set_nesterov(nesterov);
    });
    Row row = Fresh(*rule, {1});
    Step(*rule, &row, {2});  // v = 2
    Step(*rule, &row, {1});  // v = .5 * 2 + 1 = 2
    CheckClose(row.state, {2});
    // heavy ball: 1 - .1 * 2 - .1 * 2; Nesterov: 1 - .1 * (2 + .5 * 2) - .1 * (1 + .5 * 2)
    CheckClose(row.weights, {nesterov ? 0.5 : 0.6});
  }
}

TEST_CASE("Adagrad: one accumulator per weight, row-wise: their mean", "[optimizer][unit]") {
  const auto each = Rule([](Optimizer* o) {
    o->mutable_adagrad()->set_learning_rate(0.1f);
    o->mutable_adagrad()->set_initial_accumulator(7);
  });
  Row row = Fresh(*each, {1, 1});
  Step(*each, &row, {3, 0});  // a = 16, 7
  CheckClose(row.state, {16, 7});
  CheckClose(row.weights, {1 - 0.1 * 3 / 4, 1});
  const auto mean = Rule([](Optimizer* o) {
    o->mutable_rowwise_adagrad()->set_learning_rate(0.1f);
    o->mutable_rowwise_adagrad()->set_epsilon(0.5f);
  });
  row = Fresh(*mean, {1, 1});
  Step(*mean, &row, {1, 7});  // a = (1 + 49) / 2 = 25
  CheckClose(row.state, {25});
  CheckClose(row.weights, {1 - 0.1 / 5.5, 1 - 0.7 / 5.5});
  const auto no_epsilon = Rule([](Optimizer* o) { o->mutable_rowwise_adagrad()->set_learning_rate(0.1f); });
  row = Fresh(*no_epsilon, {1, 1});
  Step(*no_epsilon, &row, {0, 0});
  CHECK(row.weights == std::vector<float>{1, 1});
}

TEST_CASE("Adam and AMSGrad: bias-corrected moments, t in the state", "[optimizer][unit]") {
  const auto fill = [](Adam* adam) {
    adam->set_learning_rate(0.1f);
    adam->set_beta1(0.5f);
    adam->set_beta2(0.75f);
    adam->set_epsilon(0.5f);
  };
  const auto adam = Rule([&](Optimizer* o) { fill(o->mutable_adam()); });
  const auto amsgrad = Rule([&](Optimizer* o) { fill(o->mutable_amsgrad()); });
  Row a = Fresh(*adam, {1}), b = Fresh(*amsgrad, {1});
  CHECK(a.state.size() == 3);
  CHECK(b.state.size() == 4);
  for (Row* row : {&a, &b}) Step(row == &a ? *adam : *amsgrad, row, {4});
  // m = 2, v = 4; corrected by 1/.5 and 1/.25: 4 and 16
  CheckClose(a.weights, {1 - 0.1 * 4 / 4.5});
  CheckClose(b.weights, {1 - 0.1 * 4 / 4.5});
  for (Row* row : {&a, &b}) Step(row == &a ? *adam : *amsgrad, row, {0});
  // m = 1, v = 3, max v = 4; corrected by 1/.75 and 1/.4375
  CheckClose(a.weights, {1 - 0.1 * 4 / 4.5 - 0.1 * (1 / 0.75) / (std::sqrt(3 / 0.4375) + 0.5)});
  CheckClose(b.weights, {1 - 0.1 * 4 / 4.5 - 0.1 * (1 / 0.75) / (std::sqrt(4 / 0.4375) + 0.5)});
  uint32_t t;
  std::memcpy(&t, &a.state[2], sizeof(t));
  CHECK(t == 2);
}

TEST_CASE("Ftrl: the closed form, exact zeros within l1", "[optimizer][unit]") {
  const auto rule = Rule([](Optimizer* o) {
    o->mutable_ftrl()->set_learning_rate(0.5f);
    o->mutable_ftrl()->set_beta(1);
    o->set_l1(1);
    o->set_l2(2);
  });
  Row row = Fresh(*rule, {0, 0.25f});
  Step(*rule, &row, {3, 1}, 1);
  // n = 9, 1; z = 3 - 3/.5 * 0 = 3, 1 - 1/.5 * .25 = .5; w = -(3 - 1) / ((1 + 3)/.5 + 2) and 0
  CheckClose(row.state, {3, 0.5, 9, 1});
  CheckClose(row.weights, {-0.2, 0});
  Step(*rule, &row, {1, 1}, 0);
  CheckClose(row.weights, {-0.2, 0});
  Optimizer decayed;
  decayed.mutable_ftrl()->set_learning_rate(1);
  decayed.set_decay(0.1f);
  CHECK(UpdateRule::Create(decayed).status().message().find("optimizer.decay: 0.1") != absl::string_view::npos);
}

TEST_CASE("Clipping, penalties and decay come in this order before the step", "[optimizer][unit]") {
  const auto make = [](const std::function<void(Optimizer*)>& more) {
    return Rule([&](Optimizer* o) {
      o->mutable_sgd()->set_learning_rate(1);
      more(o);
    });
  };
  const auto run = [&](const std::function<void(Optimizer*)>& more) {
    const auto rule = make(more);
    Row row = Fresh(*rule, {2, -2});
    Step(*rule, &row, {3, 4});
    return row.weights;
  };
  CheckClose(run([](Optimizer* o) { o->set_clip_value(3.5f); }), {-1, -5.5});
  CheckClose(run([](Optimizer* o) { o->set_clip_norm(2.5f); }), {0.5, -4});
  CheckClose(run([](Optimizer* o) { o->set_l1(0.5f); }), {-1.5, -5.5});
  CheckClose(run([](Optimizer* o) { o->set_l2(0.25f); }), {-1.5, -5.5});
  CheckClose(run([](Optimizer* o) { o->set_decay(0.25f); }), {-1.5, -5.5});
  CheckClose(run([](Optimizer* o) { o->set_clip_norm(2.5f), o->set_l2(0.5f); }), {-0.5, -3});
  Optimizer bad;
  CHECK_FALSE(UpdateRule::Create(bad).ok());
  bad.mutable_sgd()->set_learning_rate(NAN);
  CHECK_FALSE(UpdateRule::Create(bad).ok());
}

TEST_CASE("Blocks: row-wise variants step rows, clip_norm takes the whole block", "[optimizer][unit]") {
  const auto rule = Rule([](Optimizer* o) {
    o->mutable_rowwise_adagrad()->set_learning_rate(1);
    o->set_clip_norm(5);
  });
  CHECK(rule->BlockStateSize(4, 2) == 2);
  std::vector<float> weights(4, 0), state(2), gradient = {6, 6, 8, 8};  // norm 14.14: scaled by 5/14.14
  rule->InitBlock(state.data(), 4, 2);
  rule->UpdateBlock(weights.data(), state.data(), gradient.data(), 4, 2, 1);
  CheckClose(state, {36.0 / 8, 64.0 / 8});
  CheckClose(weights, {-1, -1, -1, -1});
  const auto adam = Rule([](Optimizer* o) { o->mutable_adam()->set_learning_rate(1); });
  CHECK(adam->BlockStateSize(4, 2) == 9);
}

TEST_CASE("Schedules: factors of examples applied, after a linear warm-up", "[optimizer][unit]") {
  Schedule schedule;
  schedule.set_warmup_examples(100);
  CHECK(ScheduleFactor(schedule, 0) == 0);
  CHECK(ScheduleFactor(schedule, 25) == 0.25f);
  CHECK(ScheduleFactor(schedule, 100) == 1);
  CHECK(ScheduleFactor(schedule, 1000000) == 1);
  schedule.mutable_polynomial()->set_length_examples(200);
  schedule.mutable_polynomial()->set_power(2);
  schedule.mutable_polynomial()->set_end(0.2f);
  CHECK(ScheduleFactor(schedule, 100) == 1);
  CHECK(ScheduleFactor(schedule, 200) == Approx(0.2 + 0.8 * 0.25));
  CHECK(ScheduleFactor(schedule, 999) == Approx(0.2));
  schedule.mutable_cosine()->set_length_examples(200);
  CHECK(ScheduleFactor(schedule, 150) == Approx(0.5 * (1 + std::sqrt(0.5))));
  CHECK(ScheduleFactor(schedule, 300) == Approx(0).margin(1e-7));
  schedule.mutable_step()->add_boundaries_examples(10);
  schedule.mutable_step()->add_boundaries_examples(20);
  schedule.mutable_step()->set_factor(0.5f);
  CHECK(ScheduleFactor(schedule, 109) == 1);
  CHECK(ScheduleFactor(schedule, 110) == 0.5f);
  CHECK(ScheduleFactor(schedule, 120) == 0.25f);
  schedule.mutable_step()->add_boundaries_examples(20);
  CHECK(CheckSchedule(schedule).message().find("boundaries_examples[2]: 20") != absl::string_view::npos);
}

TEST_CASE("Every variant: save, restore, continue gives the same bits", "[optimizer][unit]") {
  const std::vector<std::function<void(Optimizer*)>> variants = {
      [](Optimizer* o) { o->mutable_sgd()->set_learning_rate(0.1f); },
      [](Optimizer* o) { o->mutable_momentum()->set_learning_rate(0.1f), o->mutable_momentum()->set_momentum(0.9f); },
      [](Optimizer* o) { o->mutable_adagrad()->set_learning_rate(0.1f); },
      [](Optimizer* o) { o->mutable_rowwise_adagrad()->set_learning_rate(0.1f); },
      [](Optimizer* o) { o->mutable_adam()->set_learning_rate(0.1f), o->mutable_adam()->set_beta2(0.99f); },
      [](Optimizer* o) { o->mutable_amsgrad()->set_learning_rate(0.1f), o->mutable_amsgrad()->set_beta2(0.99f); },
      [](Optimizer* o) { o->mutable_ftrl()->set_learning_rate(0.1f), o->mutable_ftrl()->set_beta(1); },
  };
  for (const auto& variant : variants) {
    const auto rule = Rule(variant), again = Rule(variant);
    std::vector<float> start(19, 0.5f);
    Row row = Fresh(*rule, start), restored;
    for (int step = 0; step < 20; ++step) {
      if (step == 10) {
        // As a checkpoint does it: bytes out, bytes in.
        restored.weights.resize(row.weights.size());
        restored.state.resize(row.state.size());
        std::memcpy(restored.weights.data(), row.weights.data(), row.weights.size() * sizeof(float));
        if (!row.state.empty()) std::memcpy(restored.state.data(), row.state.data(), row.state.size() * sizeof(float));
      }
      std::vector<float> gradient(19);
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::sin(static_cast<float>(step * 19 + i));
      Step(*rule, &row, gradient);
      if (step >= 10) Step(*again, &restored, gradient);
    }
    CHECK(std::memcmp(row.weights.data(), restored.weights.data(), row.weights.size() * sizeof(float)) == 0);
    CHECK(row.weights != start);
  }
}

}  // namespace
}  // namespace shoal
