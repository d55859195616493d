/** Texts of a language model. */
import { formatCount, plural } from '../format.ts';

export const generation = {
  title: 'Generated text',
  notTested: 'The model is tested from time to time on the end of the text, which is held out.',
  tested: (loss: string, bigram: string, isBelow: boolean) =>
    `Loss on the held-out end of the text: ${loss} nats per character. A bigram model (which character follows which) has ${bigram}${isBelow ? ', which is beaten ✓' : ''}.`,
  samples: 'During training',
  noSamples: 'The model generates a sample after its first step, and then at growing intervals.',
  after: (steps: number, loss: string) => `after ${plural(steps, 'step')}, loss ${loss}`,
  ask: 'Continue a text',
  prompt: 'Prompt',
  temperature: 'Temperature',
  temperatureAbout:
    'At 0 the most likely character is taken, at 1 characters are sampled by their probability. Characters that are not in the text are left out.',
  generate: 'Generate',
  generating: 'Generating …',
  answered: (steps: number) => `after ${plural(steps, 'step')}`,
  /** The result. */
  result: (bigram: string, steps: number, time: string) =>
    `nats per character on the held-out end of the text (a bigram model: ${bigram}), after ${formatCount(steps)} steps in ${time}.`,
};
