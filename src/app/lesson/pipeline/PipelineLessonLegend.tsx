/** The meaning of the squares. */
import { uiMessages } from '../../locales/index.ts';

export function PipelineLessonLegend() {
  const { board } = uiMessages.value.pipelineLesson;
  return (
    <p class="small dim pipeline-legend">
      {(['forward', 'backward', 'waits'] as const).map((kind) => (
        <span key={kind} class="nowrap">
          <i class={`square ${kind}`} aria-hidden="true" /> {board[kind]}
        </span>
      ))}
      <span>{board.legend}</span>
    </p>
  );
}
