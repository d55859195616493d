/**
 * Texts of the lesson about pipelines. Stages count from 0, as ranks do; micro-batches and ticks
 * count from 1.
 */
import type { ComponentChildren } from 'preact';
import { plural } from '../format.ts';
import type { LessonPageText } from './lesson.tsx';
import type { termTexts } from './terms.tsx';

/** The numbers that the texts quote. */
export interface PipelineLessonFacts {
  stages: number;
  microBatches: number;
  /**
   * Weights of GPT-2, the bytes that training all of them needs, and each stage's part of these
   * bytes.
   */
  weights: string;
  whole: string;
  part: string;
  /** A word with a definition. */
  term: (name: keyof typeof termTexts, text: string) => ComponentChildren;
}

type PassName = 'forward' | 'backward';

const batches = (n: number): string => plural(n, 'micro-batch', 'micro-batches');

export const pipelineLessonTexts = {
  heading: 'A pipeline by hand',
  simulated: 'simulated: all of these stages are in this tab',

  thoughts: {
    why: ({ stages, weights, whole, part, term }: PipelineLessonFacts): LessonPageText => ({
      title: 'Too large for one tab',
      text: (
        <>
          GPT-2 has {weights} weights. Training keeps four numbers for each: the weight, its gradient and two averages.
          That is {whole}, too much for most tabs. So the layers are cut into {term('stage', 'stages')}, one for each
          tab. With {stages} tabs, each holds about {part}.
        </>
      ),
      task: 'Change the number of stages.',
    }),
    one: (): LessonPageText => ({
      title: 'One works, the others wait',
      text: 'A batch of samples goes forward through all stages. Then its gradient goes backward through them. A stage cannot begin before its neighbour has finished. So in each tick, one stage works and the others wait.',
      task: 'Take all ticks, one by one. Hatched squares are waits.',
    }),
    micro: ({ microBatches, term }: PipelineLessonFacts): LessonPageText => ({
      title: 'Cut the batch',
      text: (
        <>
          The batch is now cut into {microBatches === 1 ? 'one' : microBatches}{' '}
          {term('micro-batch', microBatches === 1 ? 'micro-batch' : 'micro-batches')}. While stage 1 works on the first,
          stage 0 works on the second. This schedule is called GPipe: all forward passes, then all backward passes.
        </>
      ),
      task: 'Take the ticks. When does a stage wait?',
    }),
    bubble: ({ term }: PipelineLessonFacts): LessonPageText => ({
      title: 'Count the bubble',
      text: (
        <>
          Stages wait while the pipeline fills and drains. With S stages and M micro-batches, a step has 2(M+S−1) ticks,
          and each stage waits in 2(S−1) of them. Their share, (S−1)/(M+S−1), is the {term('bubble', 'bubble')}.
        </>
      ),
      task: 'With three stages, how many micro-batches make a bubble of 20 %?',
    }),
    turn: ({ term }: PipelineLessonFacts): LessonPageText => ({
      title: 'Your turn',
      text: (
        <>
          A backward pass needs the {term('activations', 'activations')} of its forward pass. A stage keeps them until
          then, so each forward pass costs memory. Decide for one stage, tick by tick. The other stages compute backward
          passes as soon as they can. This schedule is called 1F1B.
        </>
      ),
      task: 'Finish the step in as few ticks as possible, and keep few activations.',
    }),
    compare: ({ stages, microBatches }: PipelineLessonFacts): LessonPageText => ({
      title: 'Same time, less memory',
      text: `1F1B means one forward, one backward. It takes as long as GPipe. But with GPipe, every stage keeps all ${batches(microBatches)} (M). With 1F1B, stage s of S stages keeps at most S−s, so stage 0 keeps ${Math.min(stages, microBatches)}, however large M is.`,
      task: 'Take the ticks and watch what the stages keep.',
    }),
    training: (): LessonPageText => ({
      title: 'This is how tabs train',
      text: 'In real tabs a backward pass takes about twice as long as a forward pass; the bubble stays the same. Results need time to travel from browser to browser, and stages wait for them. With more micro-batches, stages wait less.',
      task: 'Let the results travel longer, and compare the waiting times.',
    }),
  },

  sizes: { title: 'The pipeline', stages: 'Stages, S', microBatches: 'Micro-batches, M' },

  schedules: { gpipe: 'GPipe', '1f1b': '1F1B' },

  cut: {
    title: 'The layers of GPT-2',
    forward: 'forward passes',
    backward: 'backward passes',
    stage: (stage: number, from: number, to: number, bytes: string) =>
      `Stage ${stage}: layers ${from} to ${to}, about ${bytes}`,
  },

  ticks: {
    title: 'The ticks',
    next: 'Next tick',
    all: 'All ticks',
    again: 'Restart',
    /** The passes that the stages computed in a tick. */
    did: (passes: readonly string[]) =>
      passes.length === 0 ? 'Nothing has been computed yet.' : `${passes.join('; ')}.`,
    pass: (stage: number, kind: PassName, microBatch: number) => `stage ${stage}: ${kind} ${microBatch}`,
  },

  board: {
    stage: (stage: number) => `Stage ${stage}`,
    stages: 'Stage',
    ticks: 'tick',
    tick: (tick: number) => `Tick ${tick}`,
    forward: 'forward',
    backward: 'backward',
    waits: 'waits',
    yours: 'you decide',
    legend: 'The number in a square is the micro-batch.',
    count: (ticks: number, of: number, waiting: number, squares: number, share: string) =>
      ticks === 0
        ? `tick 0 of ${of}`
        : `tick ${ticks} of ${of} · ${waiting} of ${plural(squares, 'square')} waiting: ${share}`,
  },

  kept: {
    title: 'Keeps now / at most',
    text: (now: number, most: number) => `${now} / ${most}`,
    label: (stage: number, now: number, most: number) =>
      `Stage ${stage} keeps the activations of ${batches(now)}; so far at most ${most}.`,
  },

  bubble: {
    title: 'The bubble',
    counted: 'Counted',
    squares: (waiting: number, all: number) => `${waiting} of ${all} squares`,
    formula: 'Formula',
  },

  turn: {
    title: 'Your stage',
    which: 'You are',
    stage: (stage: number) => `stage ${stage}`,
    decide: (stage: number, tick: number) => `Tick ${tick}: what does stage ${stage} do?`,
    forward: (microBatch: number | null) => (microBatch === null ? 'Forward' : `Forward ${microBatch}`),
    backward: (microBatch: number | null) => (microBatch === null ? 'Backward' : `Backward ${microBatch}`),
    wait: 'Wait',
    advice: 'Do as 1F1B',
    again: 'Restart',
    finished: (ticks: number, most: number) =>
      `Finished in ${plural(ticks, 'tick')}, with at most ${batches(most)} kept.`,
    others: (ticks: number, gpipe: number, usual: number) =>
      `GPipe and 1F1B need ${plural(ticks, 'tick')}; your stage keeps at most ${gpipe} with GPipe and ${usual} with 1F1B.`,
    verdicts: {
      ready: 'No pass has been computed yet.',
      done: {
        forward: 'All your forward passes are done.',
        backward: 'All your backward passes are done.',
      },
      needsForward: (microBatch: number, from: number) =>
        `Not yet: stage ${from} has not finished forward ${microBatch}, and you need its result.`,
      needsOwn: (microBatch: number) => `Not yet: a backward pass needs your own forward pass ${microBatch} first.`,
      needsBackward: (microBatch: number, from: number) =>
        `Not yet: stage ${from} has not finished backward ${microBatch}, and you need its gradient.`,
      forward: (microBatch: number, kept: number) => `Good: forward ${microBatch}. You now keep ${kept}.`,
      backward: (microBatch: number, kept: number) =>
        `Good: backward ${microBatch} frees its activations. You now keep ${kept}.`,
      early: (kept: number) =>
        `Legal, but a backward pass was possible and would have freed memory. You now keep ${kept}.`,
      more: (kept: number, usual: number) =>
        `Legal, but it costs memory: you now keep ${kept}. With 1F1B you would keep at most ${usual}.`,
      bubble: 'Nothing was possible: this wait is part of the bubble.',
      full: (kept: number) => `Good: a forward pass was possible, but you already keep ${kept}. 1F1B waits here, too.`,
      idle: 'Legal, but you could have computed a pass. The step may now take longer.',
    },
  },

  travel: {
    title: 'The step in time (1F1B)',
    time: 'A result travels for',
    /** The unit is the duration of a forward pass. */
    passes: (time: string) => `${time} × forward`,
    row: (stage: number, share: string) => `Stage ${stage} waits ${share} of the time.`,
    share: (share: string, still: string) =>
      `The stages wait for ${share} of the time. If results needed no time to travel, it would be ${still}.`,
  },

  ending: { room: 'Train in a pipeline', lesson: 'The lesson about the all-reduce' },
};
