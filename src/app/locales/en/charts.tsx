/** Texts of the charts: curves, and the marks on them. */
import type { XAxis } from '../axis.ts';
import { list, upperFirst } from '../../../util/text.ts';

export const charts = {
  axis: 'Horizontal axis',
  step: 'step',
  time: 'time',
  wholeRun: '↔ whole run',
  wholeRunTitle: 'Show the whole run again (Esc, or a double click)',
  loss: 'loss',
  ownLoss: 'this rank’s loss',
  heldOutLoss: 'held-out loss',
  log: 'log',
  logTitle: 'Logarithmic axis of losses',
  /** Texts for a learning-rate range test. */
  rate: 'learning rate',
  lossByRate: 'loss by learning rate',
  atRate: (rate: string) => `at ${rate}`,
  rateLabel: (lowest: string, highest: string) => `Loss by learning rate, from ${lowest} to ${highest}.`,
  steepestAt: (rate: string) => `The loss falls steepest at ${rate}.`,
  metric: 'Metric on held-out samples',
  metrics: {
    accuracy: 'accuracy',
    'top-3': 'top-3 accuracy',
    rmse: 'root mean square error',
    mae: 'mean absolute error',
    r2: 'R²',
  },
  /** Accuracy of a language model. */
  predicted: 'next-character accuracy',
  notMeasured: 'not measured yet',
  noLoss: 'Loss: no step yet.',
  noAccuracy: 'Accuracy: not measured yet.',
  lossLabel: (axis: XAxis, first: string, now: string) => `Loss by ${axis}: ${first} at first, ${now} now.`,
  metricLabel: (name: string, axis: XAxis, now: string) => `${upperFirst(name)} by ${axis}: ${now} now.`,
  changed: (what: string, step: number) => `After step ${step}: ${what}.`,
  savedAt: (step: number) => `Last saved after step ${step}.`,
  savedKey: '▲ saved',
  atStep: (step: number) => `at step ${step}`,
  atTime: (time: string) => `at ${time}`,
  someValues: (name: string) => `${name}, some of the values`,
  lastStep: 'The latest step of each rank',
  list: (names: readonly string[]) => list(names),
  joined: (who: string) => `${who} joined`,
  returned: (who: string) => `${who} is back`,
  left: (who: string) => `${who} left`,
  ranks: (from: number, to: number) => `${from} → ${to} ranks`,
};
