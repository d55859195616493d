/**
 * The panel that inspects the model: its answer to a drawn digit, its mistakes, and the weights of
 * its first layer.
 */
import { useSignal, type Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import {
  BUILT_IN_IMAGE_SIDE,
  type LabelledImage,
  type ModelInspection,
  type WeightPictures,
} from '../../spec/inspection.ts';
import { formatPercent, shortHash, formatLoss } from '../locales/format.ts';
import { CollapsedSection } from '../components/CollapsedSection.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { reportsOwnLossOnly } from '../state/strategies.ts';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import { clearModelAnswers } from '../state/modelAnswers.ts';
import { useInspection, usePrediction, useIsVisible } from './useAnswers.ts';
import { imageOfDrawing, type Drawing } from './drawing.ts';
import { DrawingPad } from './DrawingPad.tsx';
import { Picture } from './Picture.tsx';
import { InspectionHeading } from './InspectionHeading.tsx';

/** The state of this panel belongs to one run, because each run has its own model. */
export function InspectionPanel({ run }: { run: RunView }) {
  // This state is outside of `Fold`, because `Fold` creates its content again when a phone is
  // turned.
  const drawing = useSignal<Drawing>([]);
  const image = useSignal<LabelledImage | null>(null);
  useEffect(() => clearModelAnswers, []);
  return (
    <CollapsedSection title={uiMessages.value.inspection.title} class="inspection-panel">
      <Inside run={run} drawing={drawing} image={image} />
    </CollapsedSection>
  );
}

interface InsideProps {
  run: RunView;
  drawing: Signal<Drawing>;
  /** The held-out image that the model classifies instead of the drawing. */
  image: Signal<LabelledImage | null>;
}

function Inside({ run, drawing, image }: InsideProps) {
  const labels = uiMessages.value.inspection;
  const box = useRef<HTMLDivElement>(null);
  const isVisible = useIsVisible(box);
  const steps = run.last === null ? 0 : run.last.step + 1;
  const last = useInspection(isVisible, steps, run.result === null);
  const centre = run.job.job === 'mnist' ? 'mass' : 'box';
  const strokes = drawing.value;
  const picked = image.value;
  const drawn = useMemo(() => imageOfDrawing(strokes, centre), [strokes, centre]);
  const pixels = useMemo(
    () => (picked === null ? drawn : Float32Array.from(picked.pixels, (ink) => ink / 255)),
    [picked, drawn],
  );
  const seen = useMemo(
    () => (pixels === null ? null : Uint8Array.from(pixels, (ink) => Math.round(255 * ink))),
    [pixels],
  );
  const inspection = last?.inspection ?? null;
  const prediction = usePrediction(isVisible ? pixels : null, inspection?.steps ?? 0);

  const draw = (change: (so: Drawing) => Drawing): void => {
    image.value = null;
    drawing.value = change(drawing.peek());
  };
  const pick = (next: LabelledImage): void => {
    drawing.value = [];
    image.value = next;
  };
  const clear = (): void => draw(() => []);
  if (last !== null && inspection === null) {
    return (
      <div class="inspection" ref={box}>
        <p>{labels.none}</p>
      </div>
    );
  }
  return (
    <div class="inspection" ref={box}>
      <p class="inspection-who">
        {inspection === null ? <span class="dim">{labels.asking}</span> : <Who run={run} inspection={inspection} />}
      </p>
      <div class="inspection-columns">
        <div class="draw">
          <InspectionHeading>{labels.draw}</InspectionHeading>
          <div class="draw-row">
            <DrawingPad drawing={strokes} image={picked} ondraw={draw} onclear={clear} />
            <div class="draw-side">
              <button type="button" disabled={seen === null} onClick={clear}>
                {labels.clear}
              </button>
              {seen !== null && (
                <figure class="seen">
                  <Picture pixels={seen} side={BUILT_IN_IMAGE_SIDE} />
                  <figcaption>{labels.seen}</figcaption>
                </figure>
              )}
            </div>
          </div>
          <p class="small dim">{labels.hint}</p>
          {inspection !== null && (
            <>
              <p class="small dim">{labels.orAsk}</p>
              <ul class="plain examples">
                {inspection.examples.map((one) => (
                  <li key={one.label}>
                    <button
                      type="button"
                      class="image-button"
                      aria-label={labels.askAbout(one.label)}
                      onClick={() => pick(one)}
                    >
                      <Picture pixels={one.pixels} side={BUILT_IN_IMAGE_SIDE} />
                    </button>
                  </li>
                ))}
              </ul>
            </>
          )}
        </div>
        <Answer probabilities={prediction?.answer?.probabilities ?? null} />
        {inspection !== null && (
          <div class="mistakes">
            <InspectionHeading>{labels.mistakes}</InspectionHeading>
            <p>{labels.wrong(inspection.wrong, inspection.asked)}</p>
            <ul class="plain mistake-list">
              {inspection.mistakes.map((one, i) => (
                <li key={i}>
                  <button type="button" class="image-button" onClick={() => pick(one)}>
                    <Picture pixels={one.pixels} side={BUILT_IN_IMAGE_SIDE} />
                    <span>
                      {labels.mistake(
                        one.label,
                        one.guess,
                        <span class="nowrap">{formatPercent(one.probability)}</span>,
                      )}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
      {inspection !== null && inspection.weights !== null && <Weights weights={inspection.weights} />}
    </div>
  );
}

function Who({ run, inspection }: { run: RunView; inspection: ModelInspection }) {
  const labels = uiMessages.value.inspection;
  const state = (
    <>
      <GlossaryTerm of="state hash">{labels.state}</GlossaryTerm>{' '}
      <span class="hash">{shortHash(inspection.stateHash)}</span>
    </>
  );
  // During the run, ranks of some strategies have different models. At its end, all have the same
  // model.
  const isOwn = reportsOwnLossOnly(run.job, run.worldSize) && run.result === null;
  return isOwn ? labels.own(run.rank, inspection.steps, state) : labels.all(run.worldSize, inspection.steps, state);
}

/** @param probabilities the probability of each digit; `null` if there is nothing to classify. */
function Answer({ probabilities }: { probabilities: readonly number[] | null }) {
  const labels = uiMessages.value.inspection;
  const likeliest = probabilities === null ? -1 : probabilities.indexOf(Math.max(...probabilities));
  return (
    <div class="answer">
      <InspectionHeading>{labels.answer}</InspectionHeading>
      {/* Screen readers announce a new digit, but not a new probability. */}
      <p role="status">
        {likeliest < 0 ? <span class="dim">{labels.nothing}</span> : <strong>{labels.reads(likeliest)}</strong>}
      </p>
      <table class="bars">
        <thead class="away">
          <tr>
            <th scope="col">{labels.digit}</th>
            <th scope="col">{labels.probability}</th>
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: 10 }, (_, digit) => {
            const share = probabilities?.[digit] ?? 0;
            return (
              <tr key={digit} class={digit === likeliest ? 'likeliest' : undefined}>
                <th scope="row">{digit}</th>
                <td>
                  <span class="bar-track">
                    <span class="bar-ink" style={{ width: `${100 * share}%` }} />
                  </span>
                  <span class="bar-share">{probabilities === null ? '–' : formatPercent(share)}</span>
                  <span class="bar-word">{digit === likeliest && labels.likeliest}</span>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Weights({ weights }: { weights: WeightPictures }) {
  const { side, count, units, values, scale } = weights;
  const labels = uiMessages.value.inspection;
  const area = side * side;
  const largest = formatLoss(scale);
  return (
    <div class="weights">
      <div class="weights-title">
        <InspectionHeading>{labels.weights}</InspectionHeading>
        <p class="weights-legend small">
          <span>{labels.inhibits}</span>
          <span>−{largest}</span>
          <span class="weights-scale" aria-hidden="true" />
          <span>+{largest}</span>
          <span>{labels.activates}</span>
        </p>
      </div>
      <p class="small dim">
        {side === BUILT_IN_IMAGE_SIDE ? labels.pixelsOfUnit(count, units) : labels.windowOfUnit(units, side)}
      </p>
      <div class="weight-pictures" role="img" aria-label={labels.pictures(count, largest)}>
        {Array.from({ length: count }, (_, i) => (
          <Picture key={i} pixels={values.subarray(i * area, (i + 1) * area)} side={side} />
        ))}
      </div>
    </div>
  );
}
