/**
 * The lesson about pipelines, for one tab. All stages are simulated, and the settings are in the
 * address of the page.
 */
import { networkSize, shapesOf } from '../../../jobs/gpt/shapes.ts';
import { PRESETS } from '../../../spec/gpt.ts';
import { STATE_BYTES_PER_WEIGHT } from '../../../spec/pipeline.ts';
import { sizeOf } from '../../../util/shape.ts';
import { Term } from '../../components/Term.tsx';
import { formatBytes, formatCount, formatShare } from '../../locales/format.ts';
import { messages } from '../../locales/index.ts';
import { keepInAddress, route } from '../../state/address.ts';
import { numberIn } from '../../state/route.ts';
import { Lessons } from '../common/Lessons.tsx';
import { LessonText } from '../common/LessonText.tsx';
import { MICRO_BATCHES, planFor, STAGES, type PipelineSize, bubbleShare, squaresOf } from './board.ts';
import { ModelCut } from './ModelCut.tsx';
import { Sizes } from './Sizes.tsx';
import { Ticks } from './Ticks.tsx';
import { Travel } from './Travel.tsx';
import { YourTurn } from './YourTurn.tsx';
import { Board } from './Board.tsx';
import { Legend } from './Legend.tsx';
import { PIPELINE_PAGES, type PipelinePage } from './pages.ts';

const GPT2 = PRESETS.gpt2.model;
const WEIGHTS = shapesOf(networkSize(GPT2, GPT2.vocabulary)).reduce((sum, shape) => sum + sizeOf(shape), 0);

export function PipelineLesson() {
  const { pipelineLesson } = messages.value;
  const { query } = route.value;
  const page = numberIn(query, 'page', [1, 1, PIPELINE_PAGES.length]) - 1;
  const size: PipelineSize = {
    stages: numberIn(query, 'stages', STAGES),
    microBatches: numberIn(query, 'microBatches', MICRO_BATCHES),
  };
  const name = PIPELINE_PAGES[page]!;
  const bytes = WEIGHTS * STATE_BYTES_PER_WEIGHT;
  return (
    <main class="lesson wrap">
      <h1 class="away">{pipelineLesson.heading}</h1>
      <Lessons current="pipeline" />
      <p class="dim small">{pipelineLesson.simulated}</p>
      <div class="lesson-columns">
        <LessonText
          thought={pipelineLesson.thoughts[name]({
            ...size,
            weights: formatCount(WEIGHTS),
            whole: formatBytes(bytes),
            part: formatBytes(bytes / size.stages),
            term: (term, text) => <Term of={term}>{text}</Term>,
          })}
          page={page}
          pages={PIPELINE_PAGES.length}
          onpage={(next) => keepInAddress({ page: String(next + 1) })}
          ending={
            <div class="row">
              <a class="button primary" href="#new?job=gpt&strategy=pipeline">
                {pipelineLesson.ending.room}
              </a>
              <a class="button" href="#lesson">
                {pipelineLesson.ending.lesson}
              </a>
            </div>
          }
        />
        <div class="pipeline-parts">
          <Sizes size={size} isBatchWhole={name === 'why' || name === 'one'} />
          <Part key={`${name} ${size.stages} ${size.microBatches}`} name={name} size={size} bytes={bytes} />
        </div>
      </div>
    </main>
  );
}

/**
 * The part of the screen that the page explains. If the number of stages or micro-batches changes,
 * the part starts from its beginning.
 */
function Part({ name, size, bytes }: { name: PipelinePage; size: PipelineSize; bytes: number }) {
  switch (name) {
    case 'why':
      return <ModelCut stages={size.stages} layers={GPT2.layers} bytes={bytes} />;
    case 'one':
      return <Ticks plans={{ gpipe: planFor('gpipe', { ...size, microBatches: 1 }) }} />;
    case 'micro':
      return <Ticks plans={{ gpipe: planFor('gpipe', size) }} />;
    case 'bubble':
      return <Bubble size={size} />;
    case 'turn':
      return <YourTurn size={size} />;
    case 'compare':
      return <Ticks plans={{ gpipe: planFor('gpipe', size), '1f1b': planFor('1f1b', size) }} />;
    case 'training':
      return <Travel size={size} />;
    default:
      return name satisfies never;
  }
}

function Bubble({ size }: { size: PipelineSize }) {
  const { bubble, schedules } = messages.value.pipelineLesson;
  const plan = planFor('gpipe', size);
  const { all, waiting } = squaresOf(plan);
  const { stages, microBatches } = size;
  return (
    <section class="pipeline-part" aria-label={bubble.title}>
      <Legend />
      <Board caption={schedules.gpipe} plan={plan} columns={plan.ticks} hasKept={false} chooses={null} />
      <dl class="bubble-sums" aria-live="polite">
        <div>
          <dt class="dim">{bubble.counted}</dt>
          <dd>{bubble.squares(waiting, all)}</dd>
          <dd class="number">{formatShare(waiting / all, 1)}</dd>
        </div>
        <div>
          <dt class="dim">{bubble.formula}</dt>
          <dd>
            ({stages}−1) / ({microBatches}+{stages}−1)
          </dd>
          <dd class="number">{formatShare(bubbleShare(size), 1)}</dd>
        </div>
      </dl>
    </section>
  );
}
