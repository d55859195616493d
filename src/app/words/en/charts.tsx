/** Curves, and what is marked on them. */
import { list } from '../../format.ts';

export const charts = {
  axis: 'Horizontal axis',
  step: 'step',
  time: 'time',
  wholeRun: '↔ whole run',
  wholeRunTitle: 'Show the whole run again (Esc, or a double click)',
  loss: 'loss',
  ownLoss: 'this rank’s loss',
  accuracy: 'accuracy',
  /** Of amounts: the root of the mean squared error. */
  error: 'typical error',
  /** The same of a text. */
  foretold: 'next characters told right',
  notMeasured: 'not measured yet',
  noLoss: 'Loss: no step yet.',
  noAccuracy: 'Accuracy: not measured yet.',
  lossLabel: (axis: 'step' | 'time', first: string, now: string) => `Loss by ${axis}: ${first} at first, ${now} now.`,
  accuracyLabel: (axis: 'step' | 'time', now: string) => `Accuracy by ${axis}: ${now} now.`,
  errorLabel: (axis: 'step' | 'time', now: string) => `Typical error by ${axis}: ${now} now.`,
  changed: (what: string, step: number) => `After step ${step}: ${what}.`,
  savedAt: (step: number) => `Last saved after step ${step}.`,
  savedKey: '▲ saved',
  atStep: (step: number) => `at step ${step}`,
  atTime: (time: string) => `at ${time}`,
  someValues: (name: string) => `${name}, some of the values`,
  lastStep: 'The last step of each rank',
  list: (names: readonly string[]) => list(names),
  joined: (who: string) => `${who} joined`,
  returned: (who: string) => `${who} back`,
  left: (who: string) => `${who} left`,
  ranks: (from: number, to: number) => `${from} → ${to} ranks`,
};
