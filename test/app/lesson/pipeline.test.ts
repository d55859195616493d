import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  bubbleShare,
  endOfLastPass,
  keptActivationsByStage,
  MICRO_BATCH_BOUNDS,
  lessonPipelinePlan,
  pipelinePlanUntil,
  countPlanSquares,
  STAGE_BOUNDS,
  waitingTimeShare,
} from '../../../src/app/lesson/pipeline/board.ts';
import {
  nextPassOf1F1B,
  applyYourTurnChoice,
  isYourTurnFinished,
  startYourTurn,
  maxKeptMicroBatches,
  type YourTurnChoice,
  type YourTurnState,
} from '../../../src/app/lesson/pipeline/turn.ts';
import { PIPELINE_LESSON_PAGES } from '../../../src/app/lesson/pipeline/pages.ts';
import { en } from '../../../src/app/locales/en/index.ts';
import { zh } from '../../../src/app/locales/zh/index.ts';
import { idleShare, inputPassOf, timePipelinePlan } from '../../../src/parallel/pipeline/schedules.ts';

const upTo = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const SIZES = upTo(STAGE_BOUNDS[0], STAGE_BOUNDS[2]).flatMap((stages) =>
  upTo(MICRO_BATCH_BOUNDS[0], MICRO_BATCH_BOUNDS[2]).map((microBatches) => ({ stages, microBatches })),
);
const CHOICES = ['forward', 'backward', 'wait'] as const satisfies YourTurnChoice[];

/** A backward pass takes twice as long as a forward pass. */
const duration = ({ kind }: { kind: string }): number => (kind === 'forward' ? 1 : 2);

/** Plays the choices one after the other. */
const play = (turn: YourTurnState, choices: readonly YourTurnChoice[]): YourTurnState =>
  choices.reduce(applyYourTurnChoice, turn);

describe('a plan in the lesson', () => {
  test('has the bubble that bubbleShare computes, for both schedules and every size', () => {
    for (const size of SIZES) {
      for (const schedule of ['gpipe', '1f1b'] as const) {
        const plan = lessonPipelinePlan(schedule, size);
        const { all, waiting } = countPlanSquares(plan);
        expect(waiting / all).toBeCloseTo(bubbleShare(size), 12);
        expect(idleShare(plan)).toBeCloseTo(bubbleShare(size), 12);
      }
    }
  });

  test('has the same bubble if backward passes take twice as long as forward passes, and a larger one if results take time to travel', () => {
    for (const size of SIZES) {
      const plan = lessonPipelinePlan('1f1b', size);
      const [still, travels] = [0, 0.5].map((time) => timePipelinePlan(plan, duration, () => time));
      expect(endOfLastPass(still!)).toBe(3 * (size.microBatches + size.stages - 1));
      expect(waitingTimeShare(still!, endOfLastPass(still!))).toBeCloseTo(bubbleShare(size), 12);
      expect(waitingTimeShare(travels!, endOfLastPass(travels!))).toBeGreaterThan(bubbleShare(size));
    }
  });

  test('keeps all micro-batches on each stage with GPipe; with 1F1B, at most one for each stage from this stage to the last', () => {
    for (const size of SIZES) {
      const most = (schedule: 'gpipe' | '1f1b'): number[] =>
        keptActivationsByStage(lessonPipelinePlan(schedule, size)).map((kept) => kept.most);
      expect(most('gpipe')).toEqual(Array(size.stages).fill(size.microBatches));
      expect(most('1f1b')).toEqual(
        upTo(0, size.stages - 1).map((stage) => Math.min(size.stages - stage, size.microBatches)),
      );
    }
  });

  test('keeps a micro-batch on a stage from its forward pass to its backward pass', () => {
    const plan = lessonPipelinePlan('1f1b', { stages: 3, microBatches: 4 });
    const kept = (tick: number): number[][] =>
      keptActivationsByStage(pipelinePlanUntil(plan, tick)).map(({ now }) => now);
    expect(kept(0)).toEqual([[], [], []]);
    expect(kept(3)).toEqual([[0, 1, 2], [0, 1], [0]]);
    expect(kept(4)).toEqual([[0, 1, 2], [0, 1], []]);
    expect(kept(plan.ticks)).toEqual([[], [], []]);
  });
});

describe('a person who decides for one stage', () => {
  test('gets the plan of 1F1B, on every stage, by following the advice', () => {
    for (const size of SIZES) {
      for (const stage of upTo(0, size.stages - 1)) {
        let turn = startYourTurn(size, stage);
        while (!isYourTurnFinished(turn)) {
          turn = applyYourTurnChoice(turn, nextPassOf1F1B(turn));
          expect(['forward', 'backward', 'bubble', 'full']).toContain(turn.verdict.kind);
        }
        expect(turn.plan).toEqual(lessonPipelinePlan('1f1b', size));
        expect(keptActivationsByStage(turn.plan)[stage]!.most).toBe(maxKeptMicroBatches(turn));
      }
    }
  });

  test('cannot choose a pass whose input is missing; the verdict names this input', () => {
    const start = startYourTurn({ stages: 3, microBatches: 4 }, 1);
    const early = applyYourTurnChoice(start, 'forward');
    expect(early.plan).toEqual(start.plan);
    expect(early.verdict).toEqual({
      kind: 'impossible',
      pass: { kind: 'forward', stage: 1, microBatch: 0 },
      needs: { kind: 'forward', stage: 0, microBatch: 0 },
    });
    expect(play(start, ['wait', 'forward', 'backward']).verdict).toMatchObject({
      needs: { kind: 'backward', stage: 2, microBatch: 0 },
    });
    const last = startYourTurn({ stages: 2, microBatches: 1 }, 1);
    expect(applyYourTurnChoice(last, 'backward').verdict).toMatchObject({
      needs: { kind: 'forward', stage: 1, microBatch: 0 },
    });
  });

  test('may choose all forward passes first; the stage then keeps all micro-batches, and the plan takes as long as with GPipe', () => {
    const size = { stages: 3, microBatches: 8 };
    const third = play(startYourTurn(size, 0), ['forward', 'forward', 'forward']);
    expect(third.verdict.kind).toBe('forward');
    expect(applyYourTurnChoice(third, 'wait').verdict.kind).toBe('full');
    expect(applyYourTurnChoice(third, 'forward').verdict.kind).toBe('more');
    const sixth = play(third, ['forward', 'forward', 'forward']);
    // The first gradient has arrived by now.
    expect(sixth.verdict.kind).toBe('early');
    let turn = play(sixth, ['forward', 'forward']);
    expect(applyYourTurnChoice(turn, 'forward')).toEqual({ ...turn, verdict: { kind: 'done', of: 'forward' } });
    while (!isYourTurnFinished(turn)) {
      const tried = applyYourTurnChoice(turn, 'backward');
      turn = tried.verdict.kind === 'impossible' ? applyYourTurnChoice(turn, 'wait') : tried;
    }
    expect(keptActivationsByStage(turn.plan)[0]!.most).toBe(8);
    expect(turn.plan.ticks).toBe(lessonPipelinePlan('gpipe', size).ticks);
  });

  test('learns after a wait whether it was part of the bubble or a pass was possible', () => {
    const size = { stages: 3, microBatches: 4 };
    expect(applyYourTurnChoice(startYourTurn(size, 0), 'wait').verdict.kind).toBe('idle');
    expect(applyYourTurnChoice(startYourTurn(size, 2), 'wait').verdict.kind).toBe('bubble');
  });

  test('reaches the end whatever the choices are, and each pass comes after the pass whose result it needs', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...SIZES),
        fc.nat(),
        fc.infiniteStream(fc.constantFrom(...CHOICES)),
        (size, someStage, choices) => {
          let turn = startYourTurn(size, someStage % size.stages);
          // A person who always waits never finishes, so every second choice is the advice.
          for (const choice of choices) {
            if (isYourTurnFinished(turn)) break;
            turn = applyYourTurnChoice(applyYourTurnChoice(turn, choice), nextPassOf1F1B(turn));
          }
          const computed = turn.plan.passes.flat();
          expect(computed).toHaveLength(2 * size.stages * size.microBatches);
          for (const pass of computed) {
            const input = inputPassOf(pass, size.stages);
            const tick = computed.find(
              ({ kind, stage, microBatch }) =>
                kind === input?.kind && stage === input.stage && microBatch === input.microBatch,
            )?.tick;
            expect(tick ?? -1).toBeLessThan(pass.tick);
          }
        },
      ),
    );
  });
});

test('every page of the lesson has a text in every language', () => {
  const facts = { stages: 3, microBatches: 4, weights: '124 M', whole: '2.0 GB', part: '663 MB', term: () => null };
  for (const { pipelineLesson } of [en, zh]) {
    const titles = PIPELINE_LESSON_PAGES.map((name) => pipelineLesson.thoughts[name](facts).title);
    expect(new Set(titles).size).toBe(PIPELINE_LESSON_PAGES.length);
  }
});
