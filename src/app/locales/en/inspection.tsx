/** Texts for the inspection of the model. */
import type { ComponentChildren } from 'preact';
import { formatCount, plural } from '../format.ts';

export const inspectionTexts = {
  title: 'What the model has learned',
  /** Says which model answers. `state` is its state hash. */
  all: (n: number, steps: number, state: ComponentChildren) => (
    <>
      {n === 1 ? 'This tab’s model answers' : `${n === 2 ? 'Both' : `All ${n}`} ranks hold the same model`}. It has
      trained for {plural(steps, 'step')} ({state}).
    </>
  ),
  own: (rank: number, steps: number, state: ComponentChildren) => (
    <>
      Between two exchanges, every rank has its own model. Here, the model of rank {rank} answers. It has trained for{' '}
      {plural(steps, 'step')} ({state}).
    </>
  ),
  state: 'state',
  asking: 'Asking the model …',
  none: 'This tab has no model, because it only watches or its GPU was lost. The next run creates a model.',

  draw: 'Draw a digit',
  pad: (strokes: number) =>
    `Drawing pad, ${strokes === 0 ? 'empty' : plural(strokes, 'stroke')}. Arrow keys move the pen, Space puts it down or lifts it, and Delete clears the pad.`,
  padImage: (label: number) =>
    `A held-out image of the digit ${label}. Draw over it to start again. Delete clears the pad.`,
  hint: 'Draw with a finger or the mouse. With a keyboard, arrow keys move the pen, and Space puts it down or lifts it.',
  clear: 'Clear',
  seen: 'input of the model',
  orAsk: 'or choose an image that the model was not trained on:',
  askAbout: (label: number) => `Use this held-out image of the digit ${label}`,

  answer: 'Its answer',
  nothing: 'Nothing drawn yet.',
  reads: (digit: number) => `The model sees the digit ${digit}.`,
  digit: 'digit',
  probability: 'probability',
  likeliest: 'likeliest',

  mistakes: 'Its mistakes',
  wrong: (wrong: number, asked: number) =>
    wrong === 0
      ? `The model makes no mistake on ${asked} held-out images.`
      : `${wrong} of ${asked} held-out images are classified wrongly. The most confident mistakes are shown.`,
  mistake: (label: number, guess: number, share: ComponentChildren) => (
    <>
      {label}, read as {guess} ({share})
    </>
  ),

  confusion: {
    title: 'Confusion matrix',
    about: (samples: number, step: number) =>
      `All ${formatCount(samples)} held-out samples, predicted after step ${step}. Each row is a class, and each column is a prediction. A stronger colour means a larger share of the row.`,
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
    `Each picture shows one of the ${units} units${count < units ? ` (${count} are shown)` : ''}. The colours show where ink activates the unit and where ink inhibits it.`,
  windowOfUnit: (units: number, side: number) =>
    `Each picture shows, for one of the ${units} filters that slide over the image, the window of ${side} × ${side} pixels that activates the filter most.`,
  pictures: (count: number, scale: string) =>
    `${count} pictures of the weights of the first layer. Weights are between −${scale} and ${scale}.`,
  inhibits: 'inhibits',
  activates: 'activates',
};
