import unittest

import app


class AppTest(unittest.TestCase):
    def test_an_item_is_found_by_its_name(self):
        self.assertEqual(app.find("tea")["price"], 450)

    def test_what_is_not_there_is_none(self):
        self.assertIsNone(app.find("milk"))
