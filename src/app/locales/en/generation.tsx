/** Texts for a run of a language model. */
import { formatCount, plural } from '../format.ts';

export const generationTexts = {
  title: 'Generated text',
  notTested: 'The end of the text is held out. From time to time, the model is evaluated on it.',
  tested: (loss: string, bigram: string, isBelow: boolean) =>
    `Loss on the held-out end of the text: ${loss} nats per character. The loss of a bigram model, which predicts each character from the one before it, is ${bigram}${isBelow ? '; the trained model is better ✓' : ''}.`,
  samples: 'During training',
  noSamples: 'The model generates a sample after its first step, and then at growing intervals.',
  after: (steps: number, loss: string) => `after ${plural(steps, 'step')}, loss ${loss}`,
  ask: 'Continue a text',
  prompt: 'Prompt',
  temperature: 'Temperature',
  temperatureAbout:
    'At 0, the model always chooses the most likely character. At 1, it samples characters by their probability. Characters of the prompt that are not in the training text are ignored.',
  generate: 'Generate',
  generating: 'Generating …',
  answered: (steps: number) => `after ${plural(steps, 'step')}`,
  /** The sentence after the loss in the result. */
  result: (bigram: string, steps: number, time: string) =>
    `nats per character is the loss on the held-out end of the text, after ${formatCount(steps)} steps in ${time}. The loss of a bigram model is ${bigram}.`,
};
