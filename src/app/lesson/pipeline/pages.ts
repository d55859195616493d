/** The pages of the lesson about pipelines, in order. Their texts are in `locales/`. */
export const PIPELINE_LESSON_PAGES = ['why', 'one', 'micro', 'bubble', 'turn', 'compare', 'training'] as const;

export type PipelineLessonPageId = (typeof PIPELINE_LESSON_PAGES)[number];
