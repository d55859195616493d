/**
 * The panel for generated text: samples of the model during training, its loss on held-out text,
 * and a field for a prompt that the model continues.
 */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { MAX_PROMPT_LENGTH } from '../../spec/gpt.ts';
import { formatLoss } from '../locales/format.ts';
import { clearModelAnswers, latestGeneratedText, type GeneratedText } from '../state/modelAnswers.ts';
import { InspectionHeading } from '../inspection/InspectionHeading.tsx';
import { CollapsedSection } from '../components/CollapsedSection.tsx';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import { sendToEngine } from '../state/store.ts';

/**
 * The highest temperature. At 0, the most likely token is chosen; at 1, tokens are sampled by their
 * probability.
 */
const HOTTEST = 1.5;
const TEMPERATURE_STEP = 0.05;
const USUAL_TEMPERATURE = 0.8;

/**
 * The state of this panel belongs to one run, because each run has its own model.
 *
 * @param asks whether this tab has a model that can continue a prompt.
 */
export function GenerationPanel({ run, asks }: { run: RunView; asks: boolean }) {
  // This state is outside of `Fold`, because `Fold` creates its content again when a phone is
  // turned.
  const prompt = useSignal(run.job.gpt.prompt.trim());
  const temperature = useSignal(USUAL_TEMPERATURE);
  const generation = useGeneration();
  useEffect(() => clearModelAnswers, []);
  return (
    <CollapsedSection title={uiMessages.value.generation.title} class="generation-panel">
      <div class="generation">
        <Comparison run={run} />
        <div class={asks ? 'generation-columns' : ''}>
          <Samples run={run} />
          {asks && <Ask prompt={prompt} temperature={temperature} generation={generation} />}
        </div>
      </div>
    </CollapsedSection>
  );
}

/** Compares the latest evaluation with the bigram model. */
function Comparison({ run }: { run: RunView }) {
  const labels = uiMessages.value.generation;
  const loss = run.evaluations.at(-1)?.loss;
  const bigram = run.samples.at(-1)?.bigramLoss;
  if (loss === undefined || bigram === undefined) return <p class="dim">{labels.notTested}</p>;
  return <p>{labels.tested(formatLoss(loss), formatLoss(bigram), loss < bigram)}</p>;
}

/** Lists the samples, the newest first. */
function Samples({ run }: { run: RunView }) {
  const labels = uiMessages.value.generation;
  const { samples } = run;
  return (
    <div>
      <InspectionHeading>{labels.samples}</InspectionHeading>
      {samples.length === 0 && <p class="dim">{labels.noSamples}</p>}
      {/* The list needs the focus, so that keys can scroll it. */}
      <ol class="plain sample-list" tabIndex={0} aria-label={labels.samples}>
        {samples.toReversed().map(({ steps, loss, prompt, text }) => (
          <li key={steps}>
            <p class="small dim">{labels.after(steps, formatLoss(loss))}</p>
            <Passage prompt={prompt} text={text} />
          </li>
        ))}
      </ol>
    </div>
  );
}

interface AskProps {
  prompt: Signal<string>;
  temperature: Signal<number>;
  generation: GenerationState;
}

function Ask({ prompt, temperature, generation: { last, isPending, generate } }: AskProps) {
  const labels = uiMessages.value.generation;
  return (
    <div>
      <InspectionHeading>{labels.ask}</InspectionHeading>
      <form
        class="generation-form"
        onSubmit={(event) => {
          event.preventDefault();
          generate({ prompt: prompt.value, temperature: temperature.value });
        }}
      >
        <label class="field">
          <span>{labels.prompt}</span>
          <input
            type="text"
            maxLength={MAX_PROMPT_LENGTH}
            autocomplete="off"
            value={prompt.value}
            onInput={(event) => (prompt.value = event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>
            {labels.temperature} <span class="number">{temperature.value.toFixed(2)}</span>
          </span>
          <input
            type="range"
            min={0}
            max={HOTTEST}
            step={TEMPERATURE_STEP}
            value={temperature.value}
            aria-describedby="temperature-about"
            onInput={(event) => (temperature.value = event.currentTarget.valueAsNumber)}
          />
        </label>
        <button type="submit" disabled={isPending}>
          {isPending ? labels.generating : labels.generate}
        </button>
      </form>
      <p class="small dim" id="temperature-about">
        {labels.temperatureAbout}
      </p>
      <div role="status">
        {last !== null &&
          (last.answer === null ? (
            <p>{uiMessages.value.inspection.none}</p>
          ) : (
            <>
              <p class="small dim">{labels.answered(last.answer.steps)}</p>
              <Passage prompt={last.prompt} text={last.answer.text} />
            </>
          ))}
      </div>
    </div>
  );
}

/** Shows a generated text, which is in the language of the data. */
function Passage({ prompt, text }: { prompt: string; text: string }) {
  return (
    <p class="passage" lang="">
      <strong>{prompt.trimStart()}</strong>
      {prompt.trim() === '' ? text.trimStart() : text}
    </p>
  );
}

interface Request {
  prompt: string;
  temperature: number;
}

/** The id of the latest request of this page. Answers to earlier requests are ignored. */
let lastId = 0;

interface GenerationState {
  /** The latest answer, with its prompt. */
  last: (GeneratedText & { prompt: string }) | null;
  isPending: boolean;
  generate: (request: Request) => void;
}

function useGeneration(): GenerationState {
  const [asked, setAsked] = useState<(Request & { id: number }) | null>(null);
  const answered = useRef<GenerationState['last']>(null);
  const newest = latestGeneratedText.value;
  const isPending = asked !== null && newest?.id !== asked.id;
  if (asked !== null && newest !== null && !isPending) answered.current = { ...newest, prompt: asked.prompt };
  return {
    last: answered.current,
    isPending,
    generate: (request) => {
      lastId += 1;
      setAsked({ ...request, id: lastId });
      sendToEngine({ type: 'generate', id: lastId, ...request });
    },
  };
}
