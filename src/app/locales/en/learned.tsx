/** What the model has learned. */
import type { ComponentChildren } from 'preact';
import { formatCount, plural } from '../format.ts';

export const learned = {
  title: 'What it has learned',
  /** Who answers; `state` is the fingerprint of the state. */
  all: (n: number, steps: number, state: ComponentChildren) => (
    <>
      {n === 1 ? 'This tab’s model answers' : `${n === 2 ? 'Both' : `All ${n}`} ranks hold this same model`}: after{' '}
      {plural(steps, 'step')}, {state}.
    </>
  ),
  own: (rank: number, steps: number, state: ComponentChildren) => (
    <>
      Between two exchanges every rank has a model of its own. Rank {rank}’s answers here: after {plural(steps, 'step')}
      , {state}.
    </>
  ),
  state: 'state',
  asking: 'Asking the model …',
  none: 'There is no model to ask in this tab: it only watches, or its GPU was lost. The next run brings another.',

  draw: 'Draw a digit',
  pad: (strokes: number) =>
    `Drawing pad, ${strokes === 0 ? 'empty' : plural(strokes, 'stroke')}. Arrow keys move the pen, Space puts it down or lifts it, Delete clears.`,
  padImage: (label: number) => `A held-out image of a ${label}. Draw over it to begin anew; Delete clears.`,
  hint: 'With finger or mouse; or by arrow keys, Space for pen down and up.',
  clear: 'Clear',
  seen: 'what the model gets',
  orAsk: 'or ask about an image that it has not trained on:',
  askAbout: (label: number) => `Ask about this held-out ${label}`,

  answer: 'Its answer',
  nothing: 'Nothing drawn yet.',
  reads: (digit: number) => `It reads a ${digit}.`,
  digit: 'digit',
  probability: 'probability',
  likeliest: 'likeliest',

  mistakes: 'What it gets wrong',
  wrong: (wrong: number, asked: number) =>
    wrong === 0
      ? `None of ${asked} held-out images.`
      : `${wrong} of ${asked} held-out images; here those it was surest of.`,
  mistake: (label: number, guess: number, share: ComponentChildren) => (
    <>
      {label}, taken for {guess} ({share})
    </>
  ),

  confusion: {
    title: 'Which is taken for which',
    about: (samples: number, step: number) =>
      `All ${formatCount(samples)} held-out samples after step ${step}: a row for each class, a column for each answer; the stronger its colour, the larger a cell’s share of its row.`,
    most: (truth: ComponentChildren, answer: ComponentChildren, times: number) => (
      <>
        Most often taken for another: {truth} for {answer} ({times === 1 ? 'once' : `${times} times`}).
      </>
    ),
    none: 'Each is taken for what it is.',
    truth: 'is',
    answer: 'taken for',
  },

  weights: 'What its first layer looks for',
  pixelsOfUnit: (count: number, units: number) =>
    `Each picture is one of ${count < units ? `${count} of the ${units}` : `the ${units}`} units: where ink makes it speak up, and where ink hushes it.`,
  windowOfUnit: (units: number, side: number) =>
    `Each picture is one of the ${units} filters, which slide over the image: what a window of ${side} × ${side} pixels must look like for it to speak up.`,
  pictures: (count: number, scale: string) =>
    `${count} pictures of first-layer weights, from ${scale} below zero to ${scale} above.`,
  hushes: 'hushes',
  speaks: 'speaks up',
};
