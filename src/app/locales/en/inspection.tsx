/** Inspection of the model. */
import type { ComponentChildren } from 'preact';
import { formatCount, plural } from '../format.ts';

export const inspection = {
  title: 'What the model has learned',
  /** Which model answers; `state` is its state hash. */
  all: (n: number, steps: number, state: ComponentChildren) => (
    <>
      {n === 1 ? 'This tab’s model answers' : `${n === 2 ? 'Both' : `All ${n}`} ranks hold this same model`}: after{' '}
      {plural(steps, 'step')}, {state}.
    </>
  ),
  own: (rank: number, steps: number, state: ComponentChildren) => (
    <>
      Between two exchanges every rank has its own model. Here, rank {rank}’s model answers: after{' '}
      {plural(steps, 'step')}, {state}.
    </>
  ),
  state: 'state',
  asking: 'Asking the model …',
  none: 'This tab has no model: it only watches, or its GPU was lost. The next run creates one.',

  draw: 'Draw a digit',
  pad: (strokes: number) =>
    `Drawing pad, ${strokes === 0 ? 'empty' : plural(strokes, 'stroke')}. Arrow keys move the pen, Space puts it down or lifts it, Delete clears.`,
  padImage: (label: number) => `A held-out image of a ${label}. Draw over it to start again; Delete clears.`,
  hint: 'Use a finger, the mouse, or the arrow keys with Space for pen down and up.',
  clear: 'Clear',
  seen: 'input of the model',
  orAsk: 'or choose an image that it has not trained on:',
  askAbout: (label: number) => `Ask about this held-out ${label}`,

  answer: 'Its answer',
  nothing: 'Nothing drawn yet.',
  reads: (digit: number) => `It reads a ${digit}.`,
  digit: 'digit',
  probability: 'probability',
  likeliest: 'likeliest',

  mistakes: 'Its mistakes',
  wrong: (wrong: number, asked: number) =>
    wrong === 0
      ? `None of ${asked} held-out images.`
      : `${wrong} of ${asked} held-out images. The most confident mistakes are shown.`,
  mistake: (label: number, guess: number, share: ComponentChildren) => (
    <>
      {label}, read as {guess} ({share})
    </>
  ),

  confusion: {
    title: 'Confusion matrix',
    about: (samples: number, step: number) =>
      `All ${formatCount(samples)} held-out samples after step ${step}. Rows are classes, columns are predictions; a stronger colour is a larger share of the row.`,
    most: (truth: ComponentChildren, answer: ComponentChildren, times: number) => (
      <>
        Most frequent mistake: {truth} predicted as {answer} ({times === 1 ? 'once' : `${times} times`}).
      </>
    ),
    none: 'All predictions are correct.',
    truth: 'class',
    answer: 'prediction',
  },

  weights: 'Weights of the first layer',
  pixelsOfUnit: (count: number, units: number) =>
    `Each picture is one of ${count < units ? `${count} of the ${units}` : `the ${units}`} units: where ink activates it, and where ink inhibits it.`,
  windowOfUnit: (units: number, side: number) =>
    `Each picture is one of the ${units} filters, which slide over the image: the window of ${side} × ${side} pixels that activates it most.`,
  pictures: (count: number, scale: string) =>
    `${count} pictures of first-layer weights, from ${scale} below zero to ${scale} above.`,
  inhibits: 'inhibits',
  activates: 'activates',
};
