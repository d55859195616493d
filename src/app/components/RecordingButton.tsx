/**
 * Downloads what this rank's flight recorder holds: to see, file beside file, which rank waited for
 * which.
 */
import { downloadRecording } from '../state/store.ts';
import { messages } from '../locales/index.ts';

export function RecordingButton() {
  return (
    <button type="button" class="quiet" title={messages.value.shell.recordingAbout} onClick={downloadRecording}>
      {messages.value.shell.recording}
    </button>
  );
}
